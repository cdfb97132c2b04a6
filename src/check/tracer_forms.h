#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace passnet::check {

// Functions of torch whose signature the tracer does not bind to positions: those that choose between two functions by a
// flag (their signature is *args, **kwargs) and those with parameters by keyword only. Their node keeps the form in which
// torch's own Python code hands the arguments on: the first ones by position, every other one by keyword, defaults
// included. tests/differential/tracer_differential.py compares each with torch.
struct KeptForm {
  std::string_view target;
  std::string_view positional;  // "input, kernel_size"; "*tensors": all that are given by position
  std::string_view keywords;    // "stride=None, padding=0", in the order in which they are handed on
  std::string_view flag;  // a true value of this parameter makes it a call of `flagged`; "" if there is none
  std::string_view flagged;  // "": such a call is not followed
};

const KeptForm* kept_form(std::string_view canonical);
// Functions whose Python code makes other calls than one of itself: a pattern with them has to be run to be known.
bool traces_elsewhere(std::string_view canonical);
std::span<const KeptForm> kept_forms();

}  // namespace passnet::check
