#include "tessera/data/records/record_source.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/base/utf8.h"
#include "tessera/data/tokenizer/json_node.h"

namespace tessera {

namespace {

using Json = nlohmann::json;
using OnRecord = std::function<bool(Record&&)>;

[[noreturn]] void refuse(DocumentFault place, std::string why) {
  place.why = std::move(why);
  throw ConfigError(to_string(place));
}

bool begins_a_list(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(path + ": cannot be read: " + std::strerror(errno));
  char c = ' ';
  while (file.get(c) && std::isspace(static_cast<unsigned char>(c)) != 0) {
  }
  return file && c == '[';
}

void read_list(const std::string& path, const OnRecord& on_record) {
  const Json list = read_json_file(path);
  for (size_t i = 0; i < list.size(); ++i) {
    DocumentFault place{path + " [" + std::to_string(i) + "]", 0, 0, "", false};
    if (!list[i].is_object()) {
      throw ConfigError(place.input + ": must be an object, not " + list[i].type_name());
    }
    if (!on_record({list[i], place})) return;
  }
}

void read_lines(const std::string& path, bool as_text, const OnRecord& on_record) {
  DocumentSourceOptions options;
  options.inputs = {path};
  options.format = TextFormat::kJsonLines;
  DocumentSource source(options);
  bool more = true;
  const auto on_line = [&](std::string_view line, const DocumentFault& place) {
    if (!more) return;
    Record record{Json::object(), place};
    if (as_text) {
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (first_invalid_utf8(line) < line.size()) refuse(place, "a byte that is no UTF-8");
      record.columns["text"] = line;
    } else {
      record.columns = Json::parse(line, nullptr, false);
      if (record.columns.is_discarded()) refuse(place, "no JSON");
      if (!record.columns.is_object()) refuse(place, "must be an object of columns");
    }
    more = on_record(std::move(record));
  };
  const auto on_fault = [](const DocumentFault& fault) { throw ConfigError(to_string(fault)); };
  for (Batch batch; more && source.next(batch);) {
    for (const Piece& piece : batch.pieces) for_each_line(piece, on_line, on_fault);
  }
}

}  // namespace

void read_records(const std::string& kind, const std::string& file, const OnRecord& on_record) {
  if (kind == "csv") {
    read_csv_records(file, on_record);
  } else if (kind == "text") {
    read_lines(file, true, on_record);
  } else if (kind == "json") {
    begins_a_list(file) ? read_list(file, on_record) : read_lines(file, false, on_record);
  } else if (kind == "parquet" || kind == "arrow") {
    read_arrow_records(kind, file, on_record);
  } else {
    throw ConfigError(kind + ": must be json, csv, text, parquet or arrow");
  }
}

}  // namespace tessera
