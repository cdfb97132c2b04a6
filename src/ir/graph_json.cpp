// The JSON form of `passnet capture --json`: args hold nodes as {"node": name}; tuples, slices, dtypes, devices and
// the like as one-key objects; lists as lists; numbers, strings, booleans and null as themselves. Floats that JSON
// cannot hold are {"float": "inf"}.

#include <cmath>

#include <fmt/format.h>

#include "base/json.h"
#include "ir/graph.h"

namespace passnet {
namespace {

constexpr int kMaxDepth = 200;
constexpr std::size_t kNodeKeys = 11;  // of a node, with the origin that captured_json.cpp adds

Json float_json(double d) {
  if (std::isfinite(d)) return d;
  return Json{{"float", python_float(d)}};
}

Json value_json(const Graph& graph, const Value& v) {
  const auto items = [&] {
    Json out = Json::array();
    for (const Value& item : v.items()) out.push_back(value_json(graph, item));
    return out;
  };
  const auto tagged = [](const char* tag, Json inner) {
    Json out = Json::object();
    out[tag] = std::move(inner);
    return out;
  };
  switch (v.kind()) {
    case Value::Kind::kNone: return nullptr;
    case Value::Kind::kBool: return v.as_bool();
    case Value::Kind::kInt: return v.as_int();
    case Value::Kind::kFloat: return float_json(v.as_double());
    case Value::Kind::kComplex:
      return tagged("complex", Json::array({float_json(v.as_double()), float_json(v.imag())}));
    case Value::Kind::kString: return v.text();
    case Value::Kind::kDType: return tagged("dtype", fmt::format("torch.{}", name_of(v.as_dtype())));
    case Value::Kind::kDevice: return tagged("device", v.text());
    case Value::Kind::kLayout: return tagged("layout", v.text());
    case Value::Kind::kMemoryFormat: return tagged("memory_format", v.text());
    case Value::Kind::kConstant: return tagged("constant", v.text());
    case Value::Kind::kEllipsis: return tagged("ellipsis", true);
    case Value::Kind::kNode: return tagged("node", graph.node(v.as_node()).name);
    case Value::Kind::kList: return items();
    case Value::Kind::kTuple: return tagged("tuple", items());
    case Value::Kind::kSlice: return tagged("slice", items());
    case Value::Kind::kDict: {
      Json out = Json::object();
      for (size_t i = 0; i < v.items().size(); ++i) out[v.keys()[i]] = value_json(graph, v.items()[i]);
      return tagged("dict", std::move(out));
    }
  }
  return nullptr;
}

// Shape, dtype, stride, storage of a value; tuples give an array in each field.
void meta_json(const Meta& meta, Json& shape, Json& dtype, Json& stride, Json& storage) {
  switch (meta.kind) {
    case Meta::Kind::kTensor:
      shape = meta.tensor.shape;
      dtype = fmt::format("torch.{}", name_of(meta.tensor.dtype));
      stride = meta.tensor.stride ? Json(*meta.tensor.stride) : Json(nullptr);
      storage = meta.tensor.storage == kNoStorage ? Json(nullptr) : Json(meta.tensor.storage);
      break;
    case Meta::Kind::kTuple:
      shape = dtype = stride = storage = Json::array();
      for (const Meta& item : meta.items) {
        Json s, d, t, g;
        meta_json(item, s, d, t, g);
        shape.push_back(std::move(s));
        dtype.push_back(std::move(d));
        stride.push_back(std::move(t));
        storage.push_back(std::move(g));
      }
      break;
    case Meta::Kind::kUnknown:
    case Meta::Kind::kScalar:
    case Meta::Kind::kNone: shape = dtype = stride = storage = nullptr; break;
  }
}

class JsonReader {
 public:
  explicit JsonReader(Graph& graph) : graph_(graph) {}

  Status read(const Json& json) {
    if (!json.is_object() || !json.contains("nodes") || !json["nodes"].is_array()) {
      return fail("a graph is an object with an array `nodes`");
    }
    for (const Json& item : json["nodes"]) PN_CHECK_OK(node(item));
    if (graph_.output() == nullptr && json.contains("outputs")) {
      PN_TRY(Value v, value(json["outputs"], 0));
      if (v.kind() == Value::Kind::kList) v = Value::tuple(std::move(v.items()));
      graph_.add(NodeOp::kOutput, "output", {std::move(v)}, {}, "output");
    }
    return ok_status();
  }

 private:
  static Diagnostic fail(std::string message) { return user_error("ir.json", message); }

  Status node(const Json& json) {
    for (const char* key : {"name", "op", "target"}) {
      if (!json.is_object() || !json.contains(key) || !json[key].is_string()) {
        return fail(fmt::format("a node has a string `{}`", key));
      }
    }
    const std::string op_name = json["op"], name = json["name"];
    NodeOp op{};
    bool known = false;
    for (const NodeOp candidate : {NodeOp::kPlaceholder, NodeOp::kCallFunction, NodeOp::kCallMethod,
                                   NodeOp::kGetAttr, NodeOp::kOutput}) {
      if (name_of(candidate) == op_name) op = candidate, known = true;
    }
    if (!known) return fail(fmt::format("node {} has the unknown op '{}'", name, op_name));
    if (graph_.find(name) != nullptr) return fail(fmt::format("node name '{}' is used twice", name));
    std::vector<Value> args;
    std::vector<std::pair<std::string, Value>> kwargs;
    if (json.contains("args")) {
      for (const Json& arg : json["args"]) {
        PN_TRY(Value v, value(arg, 0));
        args.push_back(std::move(v));
      }
    }
    if (json.contains("kwargs")) {
      for (const auto& [key, arg] : json["kwargs"].items()) {
        PN_TRY(Value v, value(arg, 0));
        kwargs.emplace_back(key, std::move(v));
      }
    }
    Node& added = graph_.add(op, json["target"], std::move(args), std::move(kwargs), name);
    if (json.contains("shape") && !json["shape"].is_null()) {
      const Json null;
      const auto field = [&](const char* key) -> const Json& {
        return json.contains(key) ? json[key] : null;
      };
      PN_TRY(added.meta, meta(json["shape"], field("dtype"), field("stride"), field("storage")));
    }
    if (json.contains("writes")) {
      for (const Json& storage : json["writes"]) {
        if (!storage.is_number_integer()) return fail("`writes` holds storage ids");
        added.writes.push_back(note_storage(storage.get<StorageId>()));
      }
    }
    return ok_status();
  }

  StorageId note_storage(StorageId id) {
    graph_.storages = std::max(graph_.storages, id + 1);
    return id;
  }

  Result<Meta> meta(const Json& shape, const Json& dtype, const Json& stride, const Json& storage) {
    if (dtype.is_array()) {
      std::vector<Meta> items;
      for (size_t i = 0; i < dtype.size(); ++i) {
        const Json null;
        PN_TRY(Meta m, meta(shape.at(i), dtype[i], stride.is_array() ? stride.at(i) : null,
                            storage.is_array() ? storage.at(i) : null));
        items.push_back(std::move(m));
      }
      return Meta::tuple(std::move(items));
    }
    if (!dtype.is_string()) return Meta::unknown();
    TensorMeta t;
    const auto parsed = parse_dtype(dtype.get<std::string>());
    if (!parsed) return fail(fmt::format("unknown dtype '{}'", dtype.get<std::string>()));
    t.dtype = *parsed;
    for (const Json& extent : shape) {
      if (!extent.is_number_integer()) return fail("a shape holds integers");
      t.shape.push_back(extent.get<int64_t>());
    }
    if (stride.is_array()) {
      t.stride.emplace();
      for (const Json& s : stride) {
        if (!s.is_number_integer()) return fail("strides are integers");
        t.stride->push_back(s.get<int64_t>());
      }
      if (t.stride->size() != t.shape.size()) return fail("there is one stride an axis");
    }
    if (storage.is_number_integer()) t.storage = note_storage(storage.get<StorageId>());
    return Meta::of(std::move(t));
  }

  Result<std::vector<Value>> values(const Json& json, int depth) {
    std::vector<Value> out;
    if (!json.is_array()) return fail("a tuple or slice holds an array");
    for (const Json& item : json) {
      PN_TRY(Value v, value(item, depth + 1));
      out.push_back(std::move(v));
    }
    return out;
  }

  Result<Value> value(const Json& json, int depth) {
    if (depth > kMaxDepth) return fail(fmt::format("values are nested more than {} deep", kMaxDepth));
    if (json.is_null()) return Value::none();
    if (json.is_boolean()) return Value::boolean(json.get<bool>());
    if (json.is_number_integer()) return Value::integer(json.get<int64_t>());
    if (json.is_number_float()) return Value::real(json.get<double>());
    if (json.is_string()) return Value::string(json.get<std::string>());
    if (json.is_array()) {
      PN_TRY(std::vector<Value> items, values(json, depth));
      return Value::list(std::move(items));
    }
    if (json.size() != 1) return fail("a tagged value has exactly one key");
    const std::string tag = json.begin().key();
    const Json& inner = json.begin().value();
    if (tag == "tuple" || tag == "slice" || tag == "complex" || tag == "size") {
      PN_TRY(std::vector<Value> items, values(inner, depth));
      if (tag == "tuple" || tag == "size") return Value::tuple(std::move(items));
      if (tag == "complex") {
        if (items.size() != 2) return fail("a complex number has two parts");
        return Value::complex(items[0].as_double(), items[1].as_double());
      }
      if (items.size() != 3) return fail("a slice has three parts");
      return Value::slice(std::move(items[0]), std::move(items[1]), std::move(items[2]));
    }
    if (tag == "dict") {
      if (!inner.is_object()) return fail("a dict holds an object");
      std::vector<std::pair<std::string, Value>> entries;
      for (const auto& [key, item] : inner.items()) {
        PN_TRY(Value v, value(item, depth + 1));
        entries.emplace_back(key, std::move(v));
      }
      return Value::dict(std::move(entries));
    }
    if (tag == "ellipsis") return Value::ellipsis();
    if (!inner.is_string()) return fail(fmt::format("the value of `{}` is a string", tag));
    const std::string text = inner;
    if (tag == "node") {
      const Node* node = graph_.find(text);
      if (node == nullptr) return fail(fmt::format("no node named '{}' before its use", text));
      return Value::node(node->id);
    }
    if (tag == "dtype") {
      const auto dtype = parse_dtype(text);
      if (!dtype) return fail(fmt::format("unknown dtype '{}'", text));
      return Value::dtype(*dtype);
    }
    if (tag == "float") {
      if (text == "inf") return Value::real(HUGE_VAL);
      if (text == "-inf") return Value::real(-HUGE_VAL);
      return Value::real(std::nan(""));
    }
    if (tag == "device") return Value::device(text);
    if (tag == "layout") return Value::constant(Value::Kind::kLayout, text);
    if (tag == "memory_format") return Value::constant(Value::Kind::kMemoryFormat, text);
    if (tag == "constant") return Value::constant(Value::Kind::kConstant, text);
    return fail(fmt::format("unknown tag `{}`", tag));
  }

  Graph& graph_;
};

}  // namespace

Json to_json(const Graph& graph) {
  Json nodes = Json::array();
  nodes.get_ref<Json::array_t&>().reserve(graph.nodes().size());
  Json outputs = Json::array();
  for (const auto& owned : graph.nodes()) {
    const Node& node = *owned;
    if (node.op == NodeOp::kOutput) {
      if (!node.args.empty()) {
        // The output is a sequence of values; a bare value counts as one.
        if (node.args[0].is_sequence()) {
          for (const Value& v : node.args[0].items()) outputs.push_back(value_json(graph, v));
        } else {
          outputs.push_back(value_json(graph, node.args[0]));
        }
      }
      continue;
    }
    Json item = Json::object();
    // Its entries are copied when it grows: their keys are constant.
    item.get_ref<Json::object_t&>().reserve(kNodeKeys);
    item["name"] = node.name;
    item["op"] = name_of(node.op);
    item["target"] = node.target;
    Json args = Json::array(), kwargs = Json::object();
    for (const Value& arg : node.args) args.push_back(value_json(graph, arg));
    for (const auto& [key, arg] : node.kwargs) kwargs[key] = value_json(graph, arg);
    item["args"] = std::move(args);
    item["kwargs"] = std::move(kwargs);
    Json shape, dtype, stride, storage;
    meta_json(node.meta, shape, dtype, stride, storage);
    item["shape"] = std::move(shape);
    item["dtype"] = std::move(dtype);
    item["stride"] = std::move(stride);
    item["storage"] = std::move(storage);
    item["writes"] = node.writes;
    nodes.push_back(std::move(item));
  }
  return Json{{"nodes", std::move(nodes)}, {"outputs", std::move(outputs)}};
}

Result<Graph> graph_from_json(const Json& json) {
  Graph graph;
  PN_CHECK_OK(JsonReader(graph).read(json));
  return graph;
}

}  // namespace passnet
