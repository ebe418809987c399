#include "tessera/data/preprocess.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/data/mapped_file.h"

namespace tessera {

namespace {

// Input that one task reads: about this many bytes, of one file or of several small ones.
constexpr int64_t kTaskBytes = int64_t{4} << 20;

// Bytes [begin, end) of a file; whole lines of a JSONL file, all of any other.
struct Span {
  std::string path;
  int64_t begin = 0;
  int64_t end = 0;
};

struct Task {
  std::vector<Span> spans;
  int64_t bytes = 0;
};

// Token ids of a task's documents, end to end.
struct Encoded {
  std::vector<int32_t> ids;
  std::vector<size_t> lengths;
  int64_t empty = 0;
  int64_t bytes = 0;
};

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.data()), static_cast<size_t>(file.size())};
}

bool is_json(const std::string& path) {
  return path.ends_with(".jsonl") || path.ends_with(".json");
}

std::vector<Task> plan_tasks(const std::vector<std::string>& inputs) {
  std::vector<Task> tasks(1);
  const auto add = [&](Span span) {
    if (tasks.back().bytes >= kTaskBytes) tasks.emplace_back();
    tasks.back().bytes += span.end - span.begin;
    tasks.back().spans.push_back(std::move(span));
  };
  for (const std::string& path : inputs) {
    const MappedFile file(path);
    if (!is_json(path)) {
      add({path, 0, file.size()});
      continue;
    }
    const std::string_view text = text_of(file);
    for (size_t begin = 0; begin < text.size();) {
      size_t end = text.find('\n', std::min(begin + kTaskBytes, text.size()));
      end = end == std::string_view::npos ? text.size() : end + 1;
      add({path, static_cast<int64_t>(begin), static_cast<int64_t>(end)});
      begin = end;
    }
  }
  return tasks;
}

class Encoder {
 public:
  Encoder(const PreprocessOptions& options, const Tokenizer& tokenizer)
      : options_(options), tokenizer_(tokenizer) {
    if (!options.append_eod) return;
    eod_ = tokenizer.eod();
    if (!eod_) throw ConfigError("the tokenizer has no end-of-document id to append");
  }

  Encoded run(const Task& task) const {
    Encoded encoded;
    encoded.bytes = task.bytes;
    for (const Span& span : task.spans) {
      const MappedFile file(span.path);
      const std::string_view whole = text_of(file);
      if (is_json(span.path)) {
        add_lines(span, whole, encoded);
      } else {
        add_document(whole, encoded);
      }
    }
    return encoded;
  }

 private:
  void add_document(std::string_view text, Encoded& encoded) const {
    const size_t before = encoded.ids.size();
    tokenizer_.encode(text, encoded.ids);
    if (encoded.ids.size() == before) {
      ++encoded.empty;
      return;
    }
    if (eod_) encoded.ids.push_back(*eod_);
    encoded.lengths.push_back(encoded.ids.size() - before);
  }

  void add_lines(const Span& span, std::string_view whole, Encoded& encoded) const {
    auto at = static_cast<size_t>(span.begin);
    const auto end = std::min(static_cast<size_t>(span.end), whole.size());
    while (at < end) {
      const size_t stop = std::min(whole.find('\n', at), end);
      const std::string_view line = whole.substr(at, stop - at);
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
        add_document(text_of_line(line, span.path, whole.substr(0, at)), encoded);
      }
      at = stop + 1;
    }
  }

  std::string text_of_line(std::string_view line, const std::string& path,
                           std::string_view before) const {
    const auto refuse = [&](const std::string& why) {
      const auto number = std::count(before.begin(), before.end(), '\n') + 1;
      throw ConfigError(path + ":" + std::to_string(number) + ": " + why);
    };
    nlohmann::json object;
    try {
      object = nlohmann::json::parse(line);
    } catch (const nlohmann::json::exception& error) {
      refuse(std::string("no JSON: ") + error.what());
    }
    if (!object.is_object()) refuse("no JSON object");
    const auto field = object.find(options_.json_key);
    if (field == object.end()) refuse("no field \"" + options_.json_key + "\"");
    if (!field->is_string()) refuse("field \"" + options_.json_key + "\" is no text");
    return field->get<std::string>();
  }

  const PreprocessOptions& options_;
  const Tokenizer& tokenizer_;
  std::optional<int32_t> eod_;
};

}  // namespace

PreprocessReport preprocess(const PreprocessOptions& options, const Tokenizer& tokenizer,
                            const std::function<void(const PreprocessProgress&)>& progress) {
  const auto started = std::chrono::steady_clock::now();
  if (options.inputs.empty()) throw ConfigError("no input files");
  const std::vector<Task> tasks = plan_tasks(options.inputs);
  const Encoder encoder(options, tokenizer);
  PreprocessProgress state;
  for (const Task& task : tasks) state.bytes_total += task.bytes;

  const auto folder = std::filesystem::path(options.output_prefix).parent_path();
  std::error_code ignored;  // the writer says what is wrong
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  IndexedDatasetWriter writer(options.output_prefix, token_dtype_for(tokenizer.vocab_size()));
  PreprocessReport report;

  // Tasks run ahead on other threads; what they made is written in the order of the inputs.
  std::deque<std::future<Encoded>> running;
  const auto policy = options.workers > 1 ? std::launch::async : std::launch::deferred;
  const auto most = static_cast<size_t>(std::max<int64_t>(1, options.workers));
  for (size_t next = 0; next < tasks.size() || !running.empty();) {
    while (next < tasks.size() && running.size() < most) {
      running.push_back(
          std::async(policy, [&encoder, &task = tasks[next++]] { return encoder.run(task); }));
    }
    const Encoded encoded = running.front().get();
    running.pop_front();
    size_t at = 0;
    for (const size_t length : encoded.lengths) {
      writer.add_sequence(std::span(encoded.ids).subspan(at, length));
      writer.end_document();
      at += length;
    }
    report.empty_documents += encoded.empty;
    state.bytes_done += encoded.bytes;
    state.documents = writer.document_count();
    state.tokens = writer.token_count();
    if (progress) progress(state);
  }
  if (writer.token_count() == 0) throw ConfigError("the inputs hold no text");
  writer.finish();
  report.documents = writer.document_count();
  report.tokens = writer.token_count();
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return report;
}

}  // namespace tessera
