#include "tessera/config/static_graph/convert.h"

#include "tessera/base/error.h"
#include "tessera/config/static_graph/parts.h"

namespace tessera {

bool is_static_graph(const Value& root) {
  if (root.kind != Value::Kind::kMap) return false;
  if (root.find("parallel_config") != nullptr || root.find("runner_config") != nullptr) return true;
  const Value* model = root.find("model");
  return model != nullptr && model->kind == Value::Kind::kMap &&
         model->find("model_config") != nullptr;
}

std::string static_graph_rule(const std::string& path) {
  return "is a static-graph file (parallel_config, runner_config, model.model_config); `tessera "
         "convert-config " +
         path + " NEW.yaml` makes the form that is read here";
}

namespace static_graph {

void Work::change(const Value* where, const std::string& what) {
  changes.push_back(where == nullptr ? what : line_of(*where) + ": " + what);
}

void NewFile::add(const std::string& section, const std::string& key, const std::string& value,
                  const std::string& note) {
  for (auto& [name, lines] : sections_) {
    if (name != section) continue;
    // A nested map is written once: its lines stand together.
    const std::string map = key.substr(0, key.find('.')) + ".";
    auto place = lines.end();
    if (key.find('.') != std::string::npos) {
      for (auto line = lines.begin(); line != lines.end(); ++line) {
        if (line->key.starts_with(map)) place = line + 1;
      }
    }
    lines.insert(place, {key, value, note});
    return;
  }
  sections_.push_back({section, {{key, value, note}}});
}

std::string NewFile::text() const {
  std::string out;
  for (const auto& [section, lines] : sections_) {
    std::vector<std::string> open;
    if (!section.empty()) out += section + ":\n";
    const size_t indent = section.empty() ? 0 : 2;
    for (const Line& line : lines) {
      std::vector<std::string> parts;
      std::string rest = line.key;
      for (size_t dot; (dot = rest.find('.')) != std::string::npos; rest = rest.substr(dot + 1)) {
        parts.push_back(rest.substr(0, dot));
      }
      size_t common = 0;
      while (common < open.size() && common < parts.size() && open[common] == parts[common]) {
        ++common;
      }
      for (size_t depth = common; depth < parts.size(); ++depth) {
        out += std::string(indent + 2 * depth, ' ') + parts[depth] + ":\n";
      }
      open = parts;
      out += std::string(indent + 2 * parts.size(), ' ') + rest + ": " + line.value +
             (line.note.empty() ? "" : "  # " + line.note) + "\n";
    }
  }
  return out;
}

}  // namespace static_graph

Conversion convert_static_graph(const std::string& text, const std::string& name,
                                const std::string& directory, std::optional<int64_t> samples) {
  std::vector<Issue> issues;
  const Value root = parse_document(text, name, issues);
  if (has_errors(issues)) throw ConfigError(format_issues(issues));
  if (!is_static_graph(root)) {
    throw ConfigError(name +
                      ": is no static-graph file: it has neither parallel_config, runner_config "
                      "nor model.model_config");
  }
  static_graph::Work work(root, samples);
  find_layers(work, directory);
  const Value* const mode = work.old.take("run_mode");
  if (mode != nullptr && mode->text != "train" && mode->text != "finetune") {
    throw ConfigError(name + ": run_mode = " + display(*mode) +
                      ": only files of train and finetune are converted");
  }
  const std::string output = work.old.take_text("output_dir");
  if (!output.empty())
    work.file.add("", "output_dir", static_graph::flow(*work.old.peek("output_dir")));
  convert_checkpoint(work);
  convert_layout(work);
  convert_training(work);
  convert_data(work);
  convert_model(work);
  convert_recomputation(work);
  const std::string rest = comment_on_rest(work);
  Conversion result;
  result.yaml = "# Made from " + name + " by `tessera convert-config`, for " +
                std::to_string(work.ranks) + " ranks.\n" + work.file.text() + rest;
  result.changes = std::move(work.changes);
  result.ranks = work.ranks;
  return result;
}

}  // namespace tessera
