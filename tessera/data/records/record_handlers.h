#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/data/records/record_source.h"

namespace tessera {

/// A step of data handling and its arguments as text, by name.
struct RecordHandler {
  std::string type;
  std::map<std::string, std::vector<std::string>> args;
};

/// Calls `on_record` with what is left of the rows of `files` after the handlers: take {n}, select
/// {indices}, shuffle {seed}, rename_column {original_column_name, new_column_name},
/// remove_columns {column_names}. Those that make ids (Alpaca, packing) are passed over here.
/// shuffle and select hold all rows in memory; the others go row by row. Throws ConfigError: an
/// unknown handler or argument, a column that is not there.
void handled_records(const std::string& kind, const std::vector<std::string>& files,
                     const std::vector<RecordHandler>& handlers,
                     const std::function<bool(Record&&)>& on_record);

}  // namespace tessera
