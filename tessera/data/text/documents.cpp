#include <algorithm>
#include <string>

#include "tessera/base/error.h"
#include "tessera/base/utf8.h"
#include "tessera/data/text/document_source.h"

namespace tessera {

namespace {

using OnText = std::function<void(std::string_view text, const DocumentFault& place)>;
using OnFault = std::function<void(const DocumentFault&)>;

void whole_text(const Piece& piece, const OnText& on_text, const OnFault& on_fault) {
  if (piece.too_long) {
    on_fault(*piece.too_long);
    return;
  }
  const size_t valid =
      piece.format == TextFormat::kText ? first_invalid_utf8(piece.bytes) : piece.bytes.size();
  DocumentFault place{piece.input, 0, 0, "", false};
  if (valid == piece.bytes.size()) {
    on_text(piece.bytes, place);
    return;
  }
  place.byte = static_cast<int64_t>(valid);
  place.why =
      "a byte that is no UTF-8; convert the text with iconv, or take its bytes as they are "
      "with --format text";
  on_fault(place);
}

void one_line(std::string_view line, DocumentFault place, const std::string& json_key,
              const OnText& on_text, const OnFault& on_fault) {
  std::string text;
  const auto fault = read_json_field(line, json_key, text);
  if (!fault) {
    on_text(text, place);
    return;
  }
  place.byte += static_cast<int64_t>(fault->at);
  place.why = detail::concat(fault->why, " (byte ", fault->at + 1, " of the line)");
  on_fault(place);
}

}  // namespace

std::string too_long_text(int64_t max_document_bytes) {
  return detail::concat("longer than ", max_document_bytes, " bytes (--max-document-bytes)");
}

std::string to_string(const DocumentFault& fault) {
  if (fault.line > 0) return detail::concat(fault.input, ":", fault.line, ": ", fault.why);
  return detail::concat(fault.input, ": byte ", fault.byte, ": ", fault.why);
}

void for_each_line(const Piece& piece, const OnText& on_line, const OnFault& on_fault) {
  const std::string_view bytes = piece.bytes;
  DocumentFault place{piece.input, piece.first_line, 0, "", false};
  for (size_t at = 0; at < bytes.size(); ++place.line) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    const std::string_view line = bytes.substr(at, end - at);
    place.byte = piece.first_byte + static_cast<int64_t>(at);
    at = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (static_cast<int64_t>(line.size()) <= piece.max_document_bytes) {
      on_line(line, place);
      continue;
    }
    DocumentFault fault = place;
    fault.why = too_long_text(piece.max_document_bytes);
    on_fault(fault);
  }
  if (piece.too_long) on_fault(*piece.too_long);
}

void for_each_document(const Piece& piece, const std::string& json_key, const OnText& on_text,
                       const OnFault& on_fault) {
  if (piece.format != TextFormat::kJsonLines) {
    whole_text(piece, on_text, on_fault);
    return;
  }
  const OnText on_line = [&](std::string_view line, const DocumentFault& place) {
    one_line(line, place, json_key, on_text, on_fault);
  };
  for_each_line(piece, on_line, on_fault);
}

}  // namespace tessera
