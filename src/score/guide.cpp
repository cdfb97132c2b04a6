#include "score/guide.h"

namespace passnet::score {
namespace {

template <class T>
bool has(const std::optional<T>& v) {
  return v.has_value();
}

constexpr GuideRow kGuide[] = {
#define PASSNET_GUIDE(id, condition, signal, diagnosis, action) \
  {#id, signal, diagnosis, action, [](const GuideFacts& f) -> bool { return condition; }},
#include "score/guide.def"
#undef PASSNET_GUIDE
};

}  // namespace

std::span<const GuideRow> decision_guide() { return kGuide; }

std::vector<const GuideRow*> advice(const GuideFacts& facts) {
  std::vector<const GuideRow*> out;
  for (const GuideRow& row : kGuide)
    if (row.applies(facts)) out.push_back(&row);
  return out;
}

}  // namespace passnet::score
