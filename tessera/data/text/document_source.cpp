#include "tessera/data/text/document_source.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {

namespace {

namespace fs = std::filesystem;

constexpr size_t kBatchBytes = size_t{4} << 20;
constexpr size_t kReadBytes = size_t{1} << 20;

}  // namespace

DocumentSource::DocumentSource(DocumentSourceOptions options) : options_(std::move(options)) {
  if (options_.inputs.empty()) throw ConfigError("no input files");
  if (std::count(options_.inputs.begin(), options_.inputs.end(), "-") > 1) {
    throw ConfigError("--input - is given twice: standard input can be read only once");
  }
  told_.resize(options_.inputs.size());
  for (size_t i = 0; i < options_.inputs.size(); ++i) {
    std::error_code error;
    const std::string& path = options_.inputs[i];
    const fs::file_status status = fs::status(path, error);
    const bool other_kind =
        fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
    if (path == "-" || other_kind) {
      input_bytes_.reset();
      continue;
    }
    const OpenInput input = open_input(path, options_.format, options_.json_key);
    if (options_.say) options_.say(input.name + ": " + input.what);
    told_[i] = true;
    const auto size = fs::file_size(path, error);
    if (input_bytes_ && !error) *input_bytes_ += static_cast<int64_t>(size);
  }
}

void DocumentSource::open_next() {
  const size_t which = next_input_++;
  open_ = open_input(options_.inputs[which], options_.format, options_.json_key);
  if (options_.say && !told_[which]) options_.say(open_->name + ": " + open_->what);
  carried_.clear();
  line_ = 1;
  byte_ = 0;
  input_ended_ = false;
}

bool DocumentSource::next(Batch& batch) {
  batch = {};
  size_t bytes = 0;
  while (bytes < kBatchBytes && (open_ || next_input_ < options_.inputs.size())) {
    const bool continued = open_.has_value();
    if (!continued) open_next();
    const int64_t before = continued ? open_->file->position() : 0;
    Piece& piece = batch.pieces.emplace_back();
    piece.input = open_->name;
    piece.format = open_->format;
    piece.max_document_bytes = options_.max_document_bytes;
    open_->format == TextFormat::kJsonLines ? read_lines(piece) : read_text(piece);
    bytes += piece.bytes.size();
    batch.input_bytes += open_->file->position() - before;
    if (input_ended_ && carried_.empty()) open_.reset();
  }
  return !batch.pieces.empty();
}

bool DocumentSource::read_more(std::string& bytes) {
  const size_t before = bytes.size();
  bytes.resize(before + kReadBytes);
  const size_t got = open_->text->read(std::span(bytes).subspan(before));
  bytes.resize(before + got);
  if (got == 0) input_ended_ = true;
  return got > 0;
}

void DocumentSource::read_text(Piece& piece) {
  while (read_more(piece.bytes)) {
    if (static_cast<int64_t>(piece.bytes.size()) <= options_.max_document_bytes) continue;
    piece.bytes.clear();
    piece.too_long = {piece.input, 0, 0, too_long_text(options_.max_document_bytes), false};
    input_ended_ = true;
    return;
  }
}

void DocumentSource::read_lines(Piece& piece) {
  piece.first_line = line_;
  piece.first_byte = byte_;
  std::string bytes = std::exchange(carried_, {});
  // Whole lines are bytes [0, whole).
  size_t whole = bytes.rfind('\n') + 1;  // npos + 1 is 0
  bool too_long_line = false;
  while (whole < kBatchBytes && !too_long_line) {
    const size_t before = bytes.size();
    if (!read_more(bytes)) {
      whole = bytes.size();
      break;
    }
    const size_t newline = std::string_view(bytes).substr(before).rfind('\n');
    if (newline != std::string_view::npos) whole = before + newline + 1;
    too_long_line = static_cast<int64_t>(bytes.size() - whole) > options_.max_document_bytes;
  }
  line_ += std::count(bytes.begin(), bytes.begin() + static_cast<int64_t>(whole), '\n');
  byte_ += static_cast<int64_t>(whole);
  if (too_long_line) {
    piece.too_long = {piece.input, line_, byte_, too_long_text(options_.max_document_bytes), false};
    byte_ += static_cast<int64_t>(bytes.size() - whole);
    pass_over_line();
  } else {
    carried_ = bytes.substr(whole);
  }
  bytes.resize(whole);
  piece.bytes = std::move(bytes);
}

// Reads up to the end of the line that byte_ is in, and forgets it.
void DocumentSource::pass_over_line() {
  for (std::string bytes; read_more(bytes); bytes.clear()) {
    const size_t newline = bytes.find('\n');
    byte_ += static_cast<int64_t>(std::min(newline, bytes.size() - 1) + 1);
    if (newline == std::string::npos) continue;
    ++line_;
    carried_ = bytes.substr(newline + 1);
    return;
  }
}

}  // namespace tessera
