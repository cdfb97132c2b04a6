#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace passnet {

/// SHA-256 (FIPS 180-4), for names that must mean their content: cache folders, states, records.
class Sha256 {
 public:
  Sha256();
  Sha256& update(std::string_view bytes);
  /// Length-prefixed, so that ("ab", "c") and ("a", "bc") differ.
  Sha256& field(std::string_view bytes);
  /// 64 lower-case hexadecimal digits. Ends the computation.
  std::string hex();

 private:
  void block(const unsigned char* data);

  std::array<std::uint32_t, 8> state_;
  std::array<unsigned char, 64> buffer_{};
  std::size_t buffered_ = 0;
  std::uint64_t total_ = 0;
};

std::string sha256_hex(std::string_view bytes);

/// FNV-1a, for tables in memory only: not stable knowledge to write into a file, no defence against malice.
constexpr std::uint64_t fnv1a(std::string_view bytes, std::uint64_t seed = 0xcbf29ce484222325ull) {
  for (const char c : bytes) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return seed;
}

constexpr std::uint64_t hash_combine(std::uint64_t a, std::uint64_t b) {
  return a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2));
}

}  // namespace passnet
