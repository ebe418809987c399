#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/utf8.h"
#include "tessera/data/records/record_source.h"

namespace tessera {

namespace {

// Reads one row after another; a quoted field may hold commas, quotes (doubled) and newlines.
class CsvReader {
 public:
  explicit CsvReader(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    if (!file_) throw ConfigError(path + ": cannot be read: " + std::strerror(errno));
    if (file_.peek() == 0xef) file_.ignore(3);  // a byte-order mark
  }

  int64_t line() const { return row_line_; }

  // False at the end. A line without anything is no row.
  bool next(std::vector<std::string>& fields) {
    fields.clear();
    row_line_ = line_;
    std::string field;
    bool any = false, quoted = false;
    for (int c = file_.get();; c = file_.get()) {
      if (c == EOF && quoted) fail("a quoted field that is not closed");
      if (c == EOF || (c == '\n' && !quoted)) {
        if (c == '\n') ++line_;
        if (!any && c != EOF) {
          row_line_ = line_;
          continue;
        }
        if (any) add(fields, field);
        return any;
      }
      if (quoted) {
        if (c == '\n') ++line_;
        if (c != '"') {
          field += static_cast<char>(c);
        } else if (file_.peek() == '"') {
          field += static_cast<char>(file_.get());
        } else {
          quoted = false;
        }
      } else if (c == '"' && field.empty()) {
        quoted = any = true;
      } else if (c == ',') {
        any = true;
        add(fields, field);
      } else if (c != '\r' || file_.peek() != '\n') {
        any = true;
        field += static_cast<char>(c);
      }
    }
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw ConfigError(detail::concat(path_, ":", row_line_, ": ", why));
  }

 private:
  void add(std::vector<std::string>& fields, std::string& field) const {
    if (first_invalid_utf8(field) < field.size()) fail("a byte that is no UTF-8");
    fields.push_back(std::move(field));
    field.clear();
  }

  std::string path_;
  std::ifstream file_;
  int64_t line_ = 1;
  int64_t row_line_ = 1;
};

}  // namespace

void read_csv_records(const std::string& file, const std::function<bool(Record&&)>& on_record) {
  CsvReader reader(file);
  std::vector<std::string> names, fields;
  if (!reader.next(names)) throw ConfigError(file + ": no line that names the columns");
  while (reader.next(fields)) {
    if (fields.size() != names.size()) {
      reader.fail(detail::concat(fields.size(), " fields, the first line names ", names.size(),
                                 " columns"));
    }
    Record record{nlohmann::json::object(), {file, reader.line(), 0, "", false}};
    for (size_t i = 0; i < names.size(); ++i) record.columns[names[i]] = std::move(fields[i]);
    if (!on_record(std::move(record))) return;
  }
}

}  // namespace tessera
