#pragma once

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/diagnostic.h"

namespace passnet {

namespace detail {

/// Taking the value of an error (or the error of a value) is a bug of the caller; going on would hide it.
[[noreturn]] void result_misuse(const Diagnostic* error);

}  // namespace detail

/// A T, or the Diagnostic that says why there is none. Converts implicitly from both.
template <class T>
class [[nodiscard]] Result {
  static_assert(!std::is_same_v<std::remove_cvref_t<T>, Diagnostic>, "a Result of a Diagnostic is ambiguous");
  static_assert(!std::is_reference_v<T>, "hold a pointer instead");

 public:
  using value_type = T;

  template <class U = T>
  requires(std::is_constructible_v<T, U&&>&& std::is_convertible_v<U&&, T> &&
           !std::is_same_v<std::remove_cvref_t<U>, Result> &&
           !std::is_same_v<std::remove_cvref_t<U>, Diagnostic>) Result(U&& value)
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  Result(Diagnostic error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const T& value() const& { return check_value(), std::get<0>(state_); }
  T& value() & { return check_value(), std::get<0>(state_); }
  T&& value() && { return check_value(), std::move(std::get<0>(state_)); }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  template <class U>
  T value_or(U&& fallback) const& {
    return ok() ? value() : static_cast<T>(std::forward<U>(fallback));
  }

  const Diagnostic& error() const& { return check_error(), std::get<1>(state_); }
  Diagnostic& error() & { return check_error(), std::get<1>(state_); }
  Diagnostic&& error() && { return check_error(), std::move(std::get<1>(state_)); }

 private:
  void check_value() const {
    if (!ok()) detail::result_misuse(&std::get<1>(state_));
  }
  void check_error() const {
    if (ok()) detail::result_misuse(nullptr);
  }

  std::variant<T, Diagnostic> state_;
};

/// Success without a value. `return {};` or `return ok_status();` is success.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Diagnostic error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }

  void value() const {
    if (!ok()) detail::result_misuse(&*error_);
  }

  const Diagnostic& error() const& { return check_error(), *error_; }
  Diagnostic& error() & { return check_error(), *error_; }
  Diagnostic&& error() && { return check_error(), std::move(*error_); }

 private:
  void check_error() const {
    if (ok()) detail::result_misuse(nullptr);
  }

  std::optional<Diagnostic> error_;
};

using Status = Result<void>;

inline Status ok_status() { return {}; }

}  // namespace passnet

#define PN_CONCAT_INNER_(a, b) a##b
#define PN_CONCAT_(a, b) PN_CONCAT_INNER_(a, b)

/// `PN_TRY(auto tree, parse(text));` takes the value, or returns the error from the enclosing function. The
/// first argument is a declaration or an lvalue. Two statements: needs braces under an `if`.
#define PN_TRY(target, ...) PN_TRY_IMPL_(PN_CONCAT_(pn_result_, __LINE__), target, __VA_ARGS__)
#define PN_TRY_IMPL_(temp, target, ...)           \
  auto temp = (__VA_ARGS__);                      \
  if (!temp.ok()) return std::move(temp).error(); \
  target = std::move(temp).value()

/// `PN_CHECK_OK(write(...));` returns the error of a Status (or drops the value of a Result).
#define PN_CHECK_OK(...)                                        \
  do {                                                          \
    auto pn_status_ = (__VA_ARGS__);                            \
    if (!pn_status_.ok()) return std::move(pn_status_).error(); \
  } while (false)
