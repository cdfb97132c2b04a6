#pragma once

#include <chrono>
#include <string>

namespace passnet {

using Duration = std::chrono::nanoseconds;

/// Time as the program sees it, so that tests can set it. `monotonic` measures spans and never goes back;
/// `wall` is seconds since 1970 UTC for what is shown and recorded.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Duration monotonic() const = 0;
  virtual double wall() const = 0;
  virtual void sleep(Duration duration) = 0;
};

class SystemClock final : public Clock {
 public:
  Duration monotonic() const override;
  double wall() const override;
  void sleep(Duration duration) override;
};

/// Stands still until told to move; sleeping moves it.
class FakeClock final : public Clock {
 public:
  Duration monotonic() const override { return now_; }
  double wall() const override { return wall_start_ + std::chrono::duration<double>(now_).count(); }
  void sleep(Duration duration) override { now_ += duration; }
  void advance(Duration duration) { now_ += duration; }
  void set_wall(double seconds) { wall_start_ = seconds; }

 private:
  Duration now_{0};
  double wall_start_ = 1.0e9;
};

/// `2026-03-01T12:30:05Z`, for wall seconds.
std::string iso_time(double wall_seconds);
/// `850 ms`, `12.3 s`, `4 min 05 s`: for people.
std::string human_duration(Duration duration);

}  // namespace passnet
