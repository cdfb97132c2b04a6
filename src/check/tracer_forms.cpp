#include "check/tracer_forms.h"

#include <algorithm>
#include <array>

namespace passnet::check {

namespace {

constexpr std::string_view kPool =
    "stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False";
constexpr std::string_view kFractional =
    "output_size=None, output_ratio=None, return_indices=False, _random_samples=None";
#define PN_F "torch.nn.functional."

constexpr std::array<KeptForm, 13> kForms = {{
    {PN_F "max_pool1d", "input, kernel_size", kPool, "return_indices", PN_F "max_pool1d_with_indices"},
    {PN_F "max_pool2d", "input, kernel_size", kPool, "return_indices", PN_F "max_pool2d_with_indices"},
    {PN_F "max_pool3d", "input, kernel_size", kPool, "return_indices", PN_F "max_pool3d_with_indices"},
    {PN_F "adaptive_max_pool1d", "input, output_size", "return_indices=False", "return_indices",
     PN_F "adaptive_max_pool1d_with_indices"},
    {PN_F "adaptive_max_pool2d", "input, output_size", "return_indices=False", "return_indices",
     PN_F "adaptive_max_pool2d_with_indices"},
    {PN_F "adaptive_max_pool3d", "input, output_size", "return_indices=False", "return_indices",
     PN_F "adaptive_max_pool3d_with_indices"},
    {PN_F "fractional_max_pool2d", "input, kernel_size", kFractional, "return_indices",
     PN_F "fractional_max_pool2d_with_indices"},
    {PN_F "fractional_max_pool3d", "input, kernel_size", kFractional, "return_indices",
     PN_F "fractional_max_pool3d_with_indices"},
    {"torch.lu", "A", "pivot=True, get_infos=False, out=None", "get_infos", ""},
    {"torch.unique", "input", "sorted=True, return_inverse=False, return_counts=False, dim=None",
     "return_inverse", ""},
    {"torch.meshgrid", "*tensors", "indexing=None", "", ""},
    {PN_F "linear_cross_entropy", "input, linear_weight, target",
     "linear_bias=None, weight=None, reduction='mean', ignore_index=None, label_smoothing=0.0, options=None",
     "", ""},
    {PN_F "triplet_margin_with_distance_loss", "anchor, positive, negative",
     "distance_function=None, margin=1.0, swap=False, reduction='mean'", "", ""},
}};

#undef PN_F

}  // namespace

std::span<const KeptForm> kept_forms() { return kForms; }

bool traces_elsewhere(std::string_view canonical) {
  static constexpr std::string_view kNames[] = {"torch.nn.functional.upsample",
                                                "torch.nn.functional.upsample_bilinear",
                                                "torch.nn.functional.upsample_nearest",
                                                "torch.nn.functional.scaled_mm",
                                                "torch.nn.functional.scaled_grouped_mm",
                                                "torch.sym_sum",
                                                "torch.typename",
                                                "torch.set_default_device",
                                                "torch._constrain_as_size",
                                                "torch.linalg._powsum",
                                                "torch.dsmm",
                                                "torch.hsmm",
                                                "torch.saddmm",
                                                "torch.spmm"};
  if (std::find(std::begin(kNames), std::end(kNames), canonical) != std::end(kNames)) return true;
  // The private halves of public functions.
  for (const std::string_view place : {"torch.functional._", "torch.nn.functional._", "torch._functorch."}) {
    if (canonical.starts_with(place)) return true;
  }
  return false;
}

const KeptForm* kept_form(std::string_view canonical) {
  const auto at =
      std::find_if(kForms.begin(), kForms.end(), [&](const KeptForm& f) { return f.target == canonical; });
  return at == kForms.end() ? nullptr : &*at;
}

}  // namespace passnet::check
