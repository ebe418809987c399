#include "tessera/planner/machine/machine_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/config/suggest.h"
#include "tessera/config/yaml/value.h"

namespace tessera {
namespace {

struct Limits {
  double least = 0.0;
  double most = 1e21;
  bool zero = false;  // is legal too
};
constexpr Limits kRate{1e3, 1e19}, kSeconds{0.0, 10.0, true}, kShare{1e-6, 1.0};

// Reads one document into the machine.
class Reader {
 public:
  explicit Reader(MachineResult& result) : result_(result) {}

  void read(const Value& root) {
    if (root.kind != Value::Kind::kMap) return problem(root, "", "must be a map of fields");
    Machine& m = result_.machine;
    for (const Value::Entry& entry : root.entries) {
      const Value& v = entry.value;
      const std::string& key = entry.key;
      if (key == "name")
        text(v, key, m.name);
      else if (key == "measured")
        boolean(v, key, m.measured);
      else if (key == "host")
        text(v, key, m.host);
      else if (key == "devices")
        boolean(v, key, m.devices);
      else if (key == "cores")
        whole(v, key, m.cores);
      else if (key == "node_ranks")
        whole(v, key, m.node_ranks);
      else if (key == "memory")
        number(v, key, {1e6, 1e15}, m.memory);
      else if (key == "memory_bandwidth")
        number(v, key, kRate, m.memory_bandwidth);
      else if (key == "call")
        number(v, key, kSeconds, m.call);
      else if (key == "overlap")
        boolean(v, key, m.overlap);
      else if (key == "fusion")
        number(v, key, kShare, m.fusion);
      else if (key == "sharing")
        curve(v, key, {1.0, 1e4}, m.sharing);
      else if (key == "compute")
        compute(v);
      else if (key == "in_node")
        link(v, key, m.in_node);
      else if (key == "between")
        link(v, key, m.between);
      else if (key == "collectives")
        collectives(v);
      else if (key == "disk_bandwidth")
        number(v, key, {1e3, 1e15, true}, m.disk_bandwidth);
      else if (key == "load_token")
        number(v, key, kSeconds, m.load_token);
      else
        unknown(entry, key, kFields);
    }
  }

  void check_whole() {
    const Machine& m = result_.machine;
    const auto missing = [&](const std::string& field) {
      Issue issue;
      issue.source.file = name;
      issue.field = field;
      issue.rule = "is missing";
      result_.issues.push_back(issue);
    };
    if (has_errors(result_.issues)) return;
    if (m.compute.empty()) missing("compute");
    if (m.memory_bandwidth == 0) missing("memory_bandwidth");
    if (m.in_node.bandwidth == 0 && m.collectives.empty()) missing("in_node.bandwidth");
    if (m.node_ranks > 0 && m.between.bandwidth == 0) missing("between.bandwidth");
  }

  std::string name;

 private:
  static inline const std::vector<std::string> kFields = {"name",
                                                          "measured",
                                                          "host",
                                                          "devices",
                                                          "cores",
                                                          "node_ranks",
                                                          "memory",
                                                          "call",
                                                          "overlap",
                                                          "fusion",
                                                          "memory_bandwidth",
                                                          "sharing",
                                                          "compute",
                                                          "in_node",
                                                          "between",
                                                          "collectives",
                                                          "disk_bandwidth",
                                                          "load_token"};

  void problem(const Value& value, const std::string& field, const std::string& rule) {
    Issue issue;
    issue.source = value.source;
    issue.field = field;
    if (value.kind != Value::Kind::kMap || !value.entries.empty()) issue.value = display(value);
    issue.rule = rule;
    result_.issues.push_back(issue);
  }
  void unknown(const Value::Entry& entry, const std::string& field,
               const std::vector<std::string>& known) {
    Issue issue;
    issue.source = entry.source;
    issue.field = field;
    issue.rule = "is no field of a machine file";
    issue.nearest = nearest_word(entry.key, known);
    result_.issues.push_back(issue);
  }

  void text(const Value& v, const std::string& field, std::string& target) {
    if (v.kind != Value::Kind::kScalar) return problem(v, field, "must be a text");
    target = v.text;
  }
  void boolean(const Value& v, const std::string& field, bool& target) {
    const auto given = v.kind == Value::Kind::kScalar ? parse_bool(v.text) : std::nullopt;
    if (!given) return problem(v, field, "must be true or false");
    target = *given;
  }
  void whole(const Value& v, const std::string& field, int64_t& target) {
    double value = 0.0;
    const size_t before = result_.issues.size();
    number(v, field, {1, 1e6, true}, value);
    if (result_.issues.size() > before) return;
    if (value != std::floor(value)) return problem(v, field, "must be a whole number");
    target = static_cast<int64_t>(value);
  }

  // A number, or {value, source}.
  void number(const Value& v, const std::string& field, const Limits& limits, double& target) {
    const Value* given = &v;
    bool has_source = false;
    if (v.kind == Value::Kind::kMap) {
      given = v.find("value");
      if (given == nullptr) return problem(v, field, "has no `value`");
      const Value* source = v.find("source");
      has_source = source != nullptr && !source->text.empty();
      for (const Value::Entry& entry : v.entries) {
        if (entry.key != "value" && entry.key != "source") {
          unknown(entry, field + "." + entry.key, {"value", "source"});
        }
      }
    }
    const auto value =
        given->kind == Value::Kind::kScalar ? parse_float(given->text) : std::nullopt;
    const bool zero = value && *value == 0.0 && limits.zero;
    if (!value || !std::isfinite(*value) ||
        (!zero && (*value < limits.least || *value > limits.most))) {
      return problem(*given, field,
                     fmt::format("must be a number from {:g} to {:g}{}", limits.least, limits.most,
                                 limits.zero && limits.least > 0 ? ", or 0" : ""));
    }
    if (!has_source) result_.unsourced.push_back(field);
    target = *value;
  }

  // [[at, value], ...]
  void curve(const Value& v, const std::string& field, const Limits& limits, Curve& target) {
    const Value* list = &v;
    bool has_source = false;
    if (v.kind == Value::Kind::kMap) {
      list = v.find("value");
      has_source = v.find("source") != nullptr;
      if (list == nullptr) return problem(v, field, "has no `value`");
    }
    if (list->kind != Value::Kind::kSequence || list->items.empty()) {
      return problem(*list, field, "must be a list of points [at, value]");
    }
    const size_t before = result_.unsourced.size();
    Curve made;
    for (size_t i = 0; i < list->items.size(); ++i) {
      const Value& point = list->items[i];
      const std::string at = fmt::format("{}[{}]", field, i);
      if (point.kind != Value::Kind::kSequence || point.items.size() != 2) {
        return problem(point, at, "must be a point [at, value]");
      }
      Curve::Point made_point;
      number(point.items[0], at + "[0]", {1e-9, 1e18}, made_point.at);
      number(point.items[1], at + "[1]", limits, made_point.value);
      if (!made.points.empty() && made_point.at <= made.points.back().at) {
        return problem(point, at, "must lie beyond the point before it");
      }
      made.points.push_back(made_point);
    }
    result_.unsourced.resize(before);
    if (!has_source) result_.unsourced.push_back(field);
    target = made;
  }

  void compute(const Value& v) {
    if (v.kind != Value::Kind::kMap) return problem(v, "compute", "must be a map of dtypes");
    for (const Value::Entry& entry : v.entries) {
      const std::string at = "compute." + entry.key;
      const auto dtype = dtype_from_string(entry.key);
      if (!dtype) {
        unknown(entry, at, {"float32", "bfloat16", "float64", "float16"});
        continue;
      }
      ComputeRates& rates = result_.machine.compute[*dtype];
      if (entry.value.kind != Value::Kind::kMap) {
        problem(entry.value, at, "must be a map: peak, products, attention, attention_back");
        continue;
      }
      for (const Value::Entry& field : entry.value.entries) {
        const std::string path = at + "." + field.key;
        if (field.key == "peak")
          number(field.value, path, kRate, rates.peak);
        else if (field.key == "products")
          curve(field.value, path, kShare, rates.products);
        else if (field.key == "attention")
          number(field.value, path, kRate, rates.attention);
        else if (field.key == "attention_back") {
          number(field.value, path, kRate, rates.attention_back);
        } else {
          unknown(field, path, {"peak", "products", "attention", "attention_back"});
        }
      }
      if (rates.peak == 0 || rates.products.points.empty() || rates.attention == 0 ||
          rates.attention_back == 0) {
        problem(entry.value, at, "must have peak, products, attention and attention_back");
      }
    }
  }

  void link(const Value& v, const std::string& field, Link& target) {
    if (v.kind != Value::Kind::kMap) {
      return problem(v, field, "must be a map: name, bandwidth, latency");
    }
    for (const Value::Entry& entry : v.entries) {
      const std::string path = field + "." + entry.key;
      if (entry.key == "name")
        text(entry.value, path, target.name);
      else if (entry.key == "bandwidth")
        number(entry.value, path, kRate, target.bandwidth);
      else if (entry.key == "latency")
        number(entry.value, path, kSeconds, target.latency);
      else
        unknown(entry, path, {"name", "bandwidth", "latency"});
    }
  }

  void collectives(const Value& v) {
    if (v.kind != Value::Kind::kSequence) return problem(v, "collectives", "must be a list");
    result_.machine.collectives.clear();
    for (size_t i = 0; i < v.items.size(); ++i) {
      const std::string at = fmt::format("collectives[{}]", i);
      CollectiveTimes& row = result_.machine.collectives.emplace_back();
      if (v.items[i].kind != Value::Kind::kMap) {
        problem(v.items[i], at, "must be a map: transport, operation, ranks, seconds");
        continue;
      }
      for (const Value::Entry& entry : v.items[i].entries) {
        const std::string path = at + "." + entry.key;
        if (entry.key == "transport")
          text(entry.value, path, row.transport);
        else if (entry.key == "operation")
          text(entry.value, path, row.operation);
        else if (entry.key == "ranks")
          whole(entry.value, path, row.ranks);
        else if (entry.key == "seconds")
          curve(entry.value, path, {1e-9, 1e4}, row.seconds);
        else
          unknown(entry, path, {"transport", "operation", "ranks", "seconds"});
      }
      if (row.ranks < 2 || row.seconds.points.empty()) {
        problem(v.items[i], at, "must have ranks (at least 2) and seconds");
      }
    }
  }

  MachineResult& result_;
};

std::string curve_text(const Curve& curve) {
  std::string text = "[";
  for (const Curve::Point& point : curve.points) {
    text += fmt::format("{}[{:.10g}, {:.10g}]", text.size() > 1 ? ", " : "", point.at, point.value);
  }
  return text + "]";
}

std::string link_text(const std::string& field, const Link& link) {
  return link.bandwidth == 0
             ? ""
             : fmt::format("{}: {{name: \"{}\", bandwidth: {:.10g}, latency: {:.10g}}}\n", field,
                           link.name, link.bandwidth, link.latency);
}

}  // namespace

MachineResult read_machine_texts(const std::vector<std::string>& texts,
                                 const std::vector<std::string>& names) {
  MachineResult result;
  Reader reader(result);
  for (size_t i = 0; i < texts.size(); ++i) {
    reader.name = names[i];
    const size_t before = result.issues.size();
    const Value root = parse_document(texts[i], names[i], result.issues);
    if (result.issues.size() == before) reader.read(root);
  }
  reader.check_whole();
  return result;
}

MachineResult read_machine(const std::vector<std::string>& paths) {
  std::vector<std::string> texts;
  MachineResult unread;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) {
      Issue issue;
      issue.source.file = path;
      issue.rule = "cannot be read";
      unread.issues.push_back(issue);
    }
    texts.push_back(text.str());
  }
  return unread.issues.empty() ? read_machine_texts(texts, paths) : unread;
}

std::string machine_yaml(const Machine& m) {
  std::string text = fmt::format("name: \"{}\"\nmeasured: {}\n", m.name, m.measured);
  if (!m.host.empty()) text += fmt::format("host: \"{}\"\n", m.host);
  text += fmt::format("devices: {}\ncores: {}\nnode_ranks: {}\n", m.devices, m.cores, m.node_ranks);
  if (m.memory > 0) text += fmt::format("memory: {:.10g}  # bytes\n", m.memory);
  text += fmt::format("memory_bandwidth: {:.10g}  # bytes a second\n", m.memory_bandwidth);
  text += fmt::format("call: {:.10g}  # seconds\noverlap: {}\nfusion: {:.10g}\n", m.call, m.overlap,
                      m.fusion);
  if (!m.sharing.points.empty()) {
    text += "# ranks that compute at a time, and how much slower each is then\nsharing: " +
            curve_text(m.sharing) + "\n";
  }
  text += "compute:  # operations a second; products: share of peak by the root of their work\n";
  for (const auto& [dtype, rates] : m.compute) {
    text += fmt::format(
        "  {}:\n    peak: {:.10g}\n    products: {}\n    attention: {:.10g}\n"
        "    attention_back: {:.10g}\n",
        to_string(dtype), rates.peak, curve_text(rates.products), rates.attention,
        rates.attention_back);
  }
  text += link_text("in_node", m.in_node) + link_text("between", m.between);
  if (!m.collectives.empty()) text += "collectives:  # seconds by bytes that a rank sends\n";
  for (const CollectiveTimes& row : m.collectives) {
    text += fmt::format("  - {{transport: {}, operation: {}, ranks: {}, seconds: {}}}\n",
                        row.transport, row.operation, row.ranks, curve_text(row.seconds));
  }
  if (m.disk_bandwidth > 0) text += fmt::format("disk_bandwidth: {:.10g}\n", m.disk_bandwidth);
  if (m.load_token > 0) text += fmt::format("load_token: {:.10g}\n", m.load_token);
  return text;
}

std::optional<Machine> find_machine(const std::vector<std::string>& paths) {
  std::vector<std::string> files = paths;
  if (files.empty()) {
    const std::string standard = default_machine_path();
    if (standard.empty() || !std::filesystem::exists(standard)) return std::nullopt;
    files.push_back(standard);
  }
  MachineResult result = read_machine(files);
  if (!result.ok()) throw ConfigError(format_issues(result.issues));
  return std::move(result.machine);
}

}  // namespace tessera
