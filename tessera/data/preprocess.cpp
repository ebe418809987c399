#include "tessera/data/preprocess.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/batch_pipeline.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/data/mask_file.h"
#include "tessera/data/text/skipped_log.h"

namespace tessera {

namespace {

constexpr size_t kPlacesTold = 5;

// Token ids of a batch's documents, end to end.
struct Encoded {
  std::vector<int32_t> ids;
  std::vector<size_t> lengths;
  std::vector<DocumentFault> left_out;
  int64_t input_bytes = 0;
};

class Encoder {
 public:
  Encoder(const PreprocessOptions& options, const Tokenizer& tokenizer)
      : options_(options), tokenizer_(tokenizer) {
    if (options.add_special) tokenizer.around(before_, after_);
    if (!options.append_eod) return;
    eod_ = tokenizer.eod();
    if (!eod_) {
      throw ConfigError(
          "the tokenizer has no end-of-document id to append (eos_token of the "
          "tokenizer_config.json beside a tokenizer.json)");
    }
  }

  // Throws ConfigError on the first fault, if the options say so.
  Encoded run(const Batch& batch) const {
    Encoded encoded;
    encoded.input_bytes = batch.input_bytes;
    const auto on_text = [&](std::string_view text, const DocumentFault& place) {
      add_document(text, place, encoded);
    };
    const auto on_fault = [&](const DocumentFault& fault) {
      if (options_.on_error == OnError::kStop) throw ConfigError(to_string(fault));
      encoded.left_out.push_back(fault);
    };
    for (const Piece& piece : batch.pieces) {
      for_each_document(piece, options_.source.json_key, on_text, on_fault);
    }
    return encoded;
  }

 private:
  void add_document(std::string_view text, const DocumentFault& place, Encoded& encoded) const {
    const size_t before = encoded.ids.size();
    encoded.ids.insert(encoded.ids.end(), before_.begin(), before_.end());
    if (!encode(text, place, encoded)) {
      encoded.ids.resize(before);
      return;
    }
    encoded.ids.insert(encoded.ids.end(), after_.begin(), after_.end());
    if (eod_) encoded.ids.push_back(*eod_);
    encoded.lengths.push_back(encoded.ids.size() - before);
  }

  // Whether the text gave tokens; if not, `left_out` says why.
  bool encode(std::string_view text, const DocumentFault& place, Encoded& encoded) const {
    const size_t before = encoded.ids.size();
    DocumentFault fault = place;
    try {
      tokenizer_.encode(text, encoded.ids);
      if (encoded.ids.size() > before) return true;
      fault.why = "no text";
      fault.empty = true;
    } catch (const EncodeError& error) {
      fault.why = detail::concat(error.what(), " (byte ", error.at() + 1, " of the text)");
      if (options_.on_error == OnError::kStop) throw ConfigError(to_string(fault));
    }
    encoded.left_out.push_back(fault);
    return false;
  }

  const PreprocessOptions& options_;
  const Tokenizer& tokenizer_;
  std::vector<int32_t> before_, after_;
  std::optional<int32_t> eod_;
};

// Puts batches into the output and the report.
class Writer {
 public:
  Writer(const PreprocessOptions& options, const Tokenizer& tokenizer, PreprocessReport& report)
      : options_(options),
        report_(report),
        tokens_(options.output_prefix, token_dtype_for(tokenizer.vocab_size())),
        skipped_(skipped_path(options.output_prefix)) {}

  void add(const Encoded& encoded) {
    size_t at = 0;
    for (const size_t length : encoded.lengths) {
      tokens_.add_sequence(std::span(encoded.ids).subspan(at, length));
      tokens_.end_document();
      at += length;
    }
    for (const DocumentFault& fault : encoded.left_out) add(fault);
    report_.documents = tokens_.document_count();
    report_.tokens = tokens_.token_count();
  }

  void finish() {
    if (report_.tokens == 0) {
      std::string text = "the inputs hold no text";
      if (report_.skipped > 0) {
        text += detail::concat(": ", report_.skipped, " skipped, the first is ",
                               report_.first_skipped.front());
      }
      throw ConfigError(text);
    }
    skipped_.finish();
    tokens_.finish();
  }

 private:
  void add(const DocumentFault& fault) {
    if (options_.on_error == OnError::kSkip) skipped_.add(fault);
    if (fault.empty) {
      ++report_.empty_documents;
      return;
    }
    ++report_.skipped;
    if (report_.first_skipped.size() < kPlacesTold) {
      report_.first_skipped.push_back(to_string(fault));
    }
  }

  const PreprocessOptions& options_;
  PreprocessReport& report_;
  IndexedDatasetWriter tokens_;
  SkippedLog skipped_;
};

}  // namespace

std::string skipped_path(const std::string& output_prefix) {
  return output_prefix + ".skipped.jsonl";
}

PreprocessReport preprocess(const PreprocessOptions& options, const Tokenizer& tokenizer,
                            const std::function<void(const PreprocessProgress&)>& progress) {
  const auto started = std::chrono::steady_clock::now();
  const Encoder encoder(options, tokenizer);
  DocumentSource source(options.source);

  const auto folder = std::filesystem::path(options.output_prefix).parent_path();
  std::error_code ignored;  // the writer says what is wrong
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  PreprocessReport report;
  Writer writer(options, tokenizer, report);

  PreprocessProgress state;
  state.bytes_total = source.input_bytes();
  BatchPipeline<Encoded> pipeline(
      source, [&](const Batch& batch) { return encoder.run(batch); }, options.workers);
  while (const std::optional<Encoded> encoded = pipeline.take()) {
    writer.add(*encoded);
    state.bytes_done += encoded->input_bytes;
    state.documents = report.documents;
    state.tokens = report.tokens;
    if (progress) progress(state);
  }
  state.finished = true;
  if (progress) progress(state);
  writer.finish();
  for (const char* ending : {".bin", ".idx"}) {  // of what stood there before
    std::filesystem::remove(mask_prefix(options.output_prefix) + ending, ignored);
  }
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return report;
}

}  // namespace tessera
