#include "tessera/data/chat/preprocess_chat.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>

#include "tessera/base/error.h"
#include "tessera/data/batch_pipeline.h"
#include "tessera/data/chat/row_packer.h"
#include "tessera/data/text/skipped_log.h"

namespace tessera {

namespace {

constexpr size_t kPlacesTold = 5;

struct Encoded {
  std::vector<ChatTokens> conversations;
  std::vector<DocumentFault> skipped;
  std::vector<DocumentFault> without_answer;
  int64_t cut = 0;
  int64_t dropped = 0;
  int64_t input_bytes = 0;
};

class Encoder {
 public:
  Encoder(const ChatOptions& options, const ChatEncoder& encoder)
      : options_(options), encoder_(encoder) {}

  Encoded run(const Batch& batch) const {
    Encoded out;
    out.input_bytes = batch.input_bytes;
    const auto on_fault = [&](const DocumentFault& fault) { skip(fault, out); };
    const auto on_line = [&](std::string_view line, const DocumentFault& place) {
      Conversation conversation;
      const auto fault = read_conversation(line, options_.source.json_key, conversation);
      fault ? skip(with_reason(place, fault->why), out) : add(conversation, place, out);
    };
    const auto on_text = [&](std::string_view text, const DocumentFault& place) {
      add({{}, std::string(text)}, place, out);
    };
    for (const Piece& piece : batch.pieces) {
      piece.format == TextFormat::kJsonLines
          ? for_each_line(piece, on_line, on_fault)
          : for_each_document(piece, options_.source.json_key, on_text, on_fault);
    }
    return out;
  }

 private:
  static DocumentFault with_reason(DocumentFault place, std::string why) {
    place.why = std::move(why);
    return place;
  }

  void skip(const DocumentFault& fault, Encoded& out) const {
    if (options_.on_error == OnError::kStop) throw ConfigError(to_string(fault));
    out.skipped.push_back(fault);
  }

  void add(const Conversation& conversation, const DocumentFault& place, Encoded& out) const {
    if (!conversation.has_answer()) {
      out.without_answer.push_back(with_reason(place, "no message of the assistant"));
      return;
    }
    ChatTokens tokens;
    try {
      tokens = encoder_.encode(conversation);
    } catch (const EncodeError& error) {
      skip(with_reason(place, error.what()), out);
      return;
    }
    const auto capacity = static_cast<size_t>(options_.seq_length) + 1;
    if (options_.seq_length > 0 && tokens.ids.size() > capacity) {
      if (options_.too_long == TooLong::kDrop) {
        ++out.dropped;
        return;
      }
      tokens.ids.resize(capacity);
      tokens.counts.resize(capacity);
      ++out.cut;
    }
    // The first token is no label of anything.
    if (tokens.ids.size() < 2 ||
        std::find(tokens.counts.begin() + 1, tokens.counts.end(), 1) == tokens.counts.end()) {
      out.without_answer.push_back(with_reason(place, "no token of an answer within the row"));
      return;
    }
    out.conversations.push_back(std::move(tokens));
  }

  const ChatOptions& options_;
  const ChatEncoder& encoder_;
};

void name_places(const std::vector<DocumentFault>& faults, int64_t& count,
                 std::vector<std::string>& first) {
  for (const DocumentFault& fault : faults) {
    ++count;
    if (first.size() < kPlacesTold) first.push_back(to_string(fault));
  }
}

void add(const Encoded& encoded, ChatReport& report) {
  report.cut += encoded.cut;
  report.dropped += encoded.dropped;
  name_places(encoded.without_answer, report.without_answer, report.first_without_answer);
  name_places(encoded.skipped, report.skipped, report.first_skipped);
  for (const ChatTokens& tokens : encoded.conversations) {
    ++report.conversations;
    report.counted += std::accumulate(tokens.counts.begin(), tokens.counts.end(), int64_t{0});
  }
}

}  // namespace

ChatReport preprocess_chat(const ChatOptions& options, const ChatEncoder& encoder,
                           const std::function<void(const PreprocessProgress&)>& progress) {
  const auto started = std::chrono::steady_clock::now();
  if (options.packing && options.seq_length <= 0) {
    throw ConfigError("packing needs the length of a row (--seq-length)");
  }
  const Encoder work(options, encoder);
  DocumentSource source(options.source);
  const auto folder = std::filesystem::path(options.output_prefix).parent_path();
  std::error_code ignored;  // the writer says what is wrong
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);

  ChatReport report;
  RowWriter rows(options.output_prefix, token_dtype_for(encoder.tokenizer().vocab_size()),
                 options.seq_length + 1, options.packing);
  SkippedLog skipped(skipped_path(options.output_prefix));
  PreprocessProgress state;
  state.bytes_total = source.input_bytes();
  BatchPipeline<Encoded> pipeline(
      source, [&](const Batch& batch) { return work.run(batch); }, options.workers);
  while (std::optional<Encoded> encoded = pipeline.take()) {
    add(*encoded, report);
    if (options.on_error == OnError::kSkip) {
      for (const DocumentFault& fault : encoded->skipped) skipped.add(fault);
    }
    for (ChatTokens& tokens : encoded->conversations) rows.add(std::move(tokens));
    state.bytes_done += encoded->input_bytes;
    state.documents = report.conversations;
    state.tokens = rows.token_count();
    if (progress) progress(state);
  }
  state.finished = true;
  if (progress) progress(state);
  if (report.conversations == 0) {
    const std::string why = left_out_text(report);
    throw ConfigError("the inputs hold no conversation to learn from" +
                      (why.empty() ? "" : ":" + why));
  }
  skipped.finish();
  rows.finish();
  report.rows = rows.row_count();
  report.tokens = rows.token_count();
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return report;
}

std::string left_out_text(const ChatReport& report) {
  std::string text;
  const auto say = [&](int64_t count, const std::string& what,
                       const std::vector<std::string>& places) {
    if (count == 0) return;
    text += detail::concat("\n", count, " ", what);
    for (const std::string& place : places) text += "\n  " + place;
  };
  say(report.cut, "conversations longer than a row were cut", {});
  say(report.dropped, "conversations longer than a row were dropped", {});
  say(report.without_answer,
      "conversations without an answer left out; the first:", report.first_without_answer);
  say(report.skipped, "records skipped; the first:", report.first_skipped);
  return text;
}

bool holds_conversations(const DocumentSourceOptions& options) {
  std::error_code error;
  if (options.inputs.empty() || !std::filesystem::is_regular_file(options.inputs[0], error)) {
    return false;
  }
  DocumentSourceOptions first = options;
  first.inputs.resize(1);
  first.say = {};
  DocumentSource source(first);
  Batch batch;
  if (!source.next(batch) || batch.pieces[0].format != TextFormat::kJsonLines) return false;
  std::optional<bool> found;
  const auto on_line = [&](std::string_view line, const DocumentFault&) {
    if (!found) found = is_conversation(line, options.json_key);
  };
  for_each_line(batch.pieces[0], on_line, [](const DocumentFault&) {});
  return found.value_or(false);
}

}  // namespace tessera
