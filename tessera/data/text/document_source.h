#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/data/text/json_field.h"
#include "tessera/data/text/open_input.h"

namespace tessera {

/// Where a document was left out, and why.
struct DocumentFault {
  std::string input;
  int64_t line = 0;  // from 1; 0 where the whole input is the document
  int64_t byte = 0;  // of the decompressed input, from 0
  std::string why;
  bool empty = false;  // nothing is wrong, but there is no text
};

/// The fault of a document longer than `max_document_bytes`.
std::string too_long_text(int64_t max_document_bytes);

/// "FILE:LINE: why (byte N)".
std::string to_string(const DocumentFault& fault);

/// Part of an input: whole lines, or the whole of a text.
struct Piece {
  std::string input;
  TextFormat format = TextFormat::kText;
  std::string bytes;
  int64_t first_line = 1;
  int64_t first_byte = 0;  // of the decompressed input
  int64_t max_document_bytes = 0;
  std::optional<DocumentFault> too_long;  // what comes after `bytes` and is left out
};

/// Pieces that are worth one turn of work.
struct Batch {
  std::vector<Piece> pieces;
  int64_t input_bytes = 0;  // read for them, of the files as they are on disk
};

struct DocumentSourceOptions {
  std::vector<std::string> inputs;   // paths; "-" is standard input
  std::optional<TextFormat> format;  // without: every input is recognised
  std::string json_key = "text";
  int64_t max_document_bytes = int64_t{1} << 30;  // a line of JSON lines, or a whole text
  std::function<void(const std::string&)> say;    // one line per input: what was recognised
};

/// Reads inputs one after another, as streams. Memory: one batch, which is 4 MiB or one document.
class DocumentSource {
 public:
  /// Looks at every input that can be opened twice: what is not there or is refused is told before
  /// hours of work. Throws ConfigError.
  explicit DocumentSource(DocumentSourceOptions options);
  /// False at the end. Throws ConfigError: an input that cannot be read on, as a damaged archive.
  bool next(Batch& batch);
  /// Bytes of all inputs on disk; nothing if one is a pipe.
  std::optional<int64_t> input_bytes() const { return input_bytes_; }

 private:
  void open_next();
  void read_text(Piece& piece);
  void read_lines(Piece& piece);
  void pass_over_line();
  bool read_more(std::string& bytes);

  DocumentSourceOptions options_;
  std::optional<int64_t> input_bytes_ = 0;
  std::vector<bool> told_;  // by input
  size_t next_input_ = 0;
  std::optional<OpenInput> open_;
  std::string carried_;  // of the open input: read, but beyond the last piece
  int64_t line_ = 1;     // number of the line that begins with carried_
  int64_t byte_ = 0;     // where carried_ begins
  bool input_ended_ = false;
};

/// Calls `on_line` for every line of a piece of JSON lines that is not blank, with where it is, and
/// `on_fault` for one that is too long, in order.
void for_each_line(
    const Piece& piece,
    const std::function<void(std::string_view line, const DocumentFault& place)>& on_line,
    const std::function<void(const DocumentFault&)>& on_fault);

/// Calls `on_text` for every document of the piece, with where it is, and `on_fault` for what is
/// none, in order. Blank lines are neither.
void for_each_document(
    const Piece& piece, const std::string& json_key,
    const std::function<void(std::string_view text, const DocumentFault& place)>& on_text,
    const std::function<void(const DocumentFault&)>& on_fault);

}  // namespace tessera
