#include "base/json.h"
#include "capture/capture.h"

namespace passnet {

Json graph_json(const Captured& captured, std::size_t index) {
  Json out = to_json(captured.graphs[index]);
  if (index >= captured.origins.size()) return out;
  for (Json& node : out["nodes"]) {
    const auto it = captured.origins[index].find(node.value("name", ""));
    if (it == captured.origins[index].end()) continue;
    const Captured::Origin& origin = it->second;
    node["origin"] = origin.graph < 0 ? Json{{"graph", nullptr}, {"node", nullptr}}
                                      : Json{{"graph", origin.graph}, {"node", origin.node}};
  }
  return out;
}

}  // namespace passnet
