#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "tessera/data/text/document_source.h"

namespace tessera {

/// A row of a data set, an object of columns, and where it stands.
struct Record {
  nlohmann::json columns;
  DocumentFault place;
};

/// Calls `on_record` for every row of a file in order, until it returns false. `kind`: json (lines,
/// or one list of objects), csv (RFC 4180, the first line names the columns), text (a line a row,
/// column `text`), parquet or arrow. json may be compressed. Throws ConfigError that names the
/// place.
void read_records(const std::string& kind, const std::string& file,
                  const std::function<bool(Record&&)>& on_record);

/// The same of parquet and arrow files, by a library that is loaded when it is needed.
void read_arrow_records(const std::string& kind, const std::string& file,
                        const std::function<bool(Record&&)>& on_record);

/// The same of a file of comma-separated values.
void read_csv_records(const std::string& file, const std::function<bool(Record&&)>& on_record);

}  // namespace tessera
