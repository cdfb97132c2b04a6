#include "base/hash.h"

#include <gtest/gtest.h>

namespace passnet {
namespace {

// The published examples of the standard.
TEST(Sha256, AgreesWithThePublishedVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheHashOfTheWhole) {
  const std::string text(200, 'x');
  for (std::size_t cut = 0; cut <= text.size(); cut += 7) {
    EXPECT_EQ(Sha256().update(text.substr(0, cut)).update(text.substr(cut)).hex(), sha256_hex(text));
  }
}

TEST(Sha256, FieldsDoNotRunTogether) {
  EXPECT_NE(Sha256().field("ab").field("c").hex(), Sha256().field("a").field("bc").hex());
}

TEST(Fnv1a, AgreesWithThePublishedVectors) {
  static_assert(fnv1a("") == 0xcbf29ce484222325ull);
  static_assert(fnv1a("a") == 0xaf63dc4c8601ec8cull);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8ull);
}

}  // namespace
}  // namespace passnet
