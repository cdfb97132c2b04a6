#include "base/clock.h"

#include <cmath>
#include <ctime>
#include <thread>

#include <fmt/format.h>

namespace passnet {

Duration SystemClock::monotonic() const { return std::chrono::steady_clock::now().time_since_epoch(); }

double SystemClock::wall() const {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void SystemClock::sleep(Duration duration) { std::this_thread::sleep_for(duration); }

std::string iso_time(double wall_seconds) {
  const auto seconds = static_cast<std::time_t>(std::floor(wall_seconds));
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string human_duration(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 99.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace passnet
