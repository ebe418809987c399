#pragma once

#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tessera/data/indexed_dataset.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {

/// Writes `documents`, one sequence each, and returns the prefix.
inline std::string write_token_file(const std::filesystem::path& prefix,
                                    const std::vector<std::vector<int32_t>>& documents,
                                    TokenDtype dtype = TokenDtype::kUInt16) {
  IndexedDatasetWriter writer(prefix.string(), dtype);
  for (const auto& document : documents) {
    writer.add_sequence(document);
    writer.end_document();
  }
  writer.finish();
  return prefix.string();
}

/// Documents of the given lengths whose tokens count up from 0 through the whole file.
inline std::vector<std::vector<int32_t>> counting_documents(const std::vector<int64_t>& lengths) {
  std::vector<std::vector<int32_t>> documents;
  int32_t next = 0;
  for (const int64_t length : lengths) {
    std::vector<int32_t> document(static_cast<size_t>(length));
    std::iota(document.begin(), document.end(), next);
    next += static_cast<int32_t>(length);
    documents.push_back(std::move(document));
  }
  return documents;
}

/// The message of the error of type `E` that `action` throws; empty if it throws none.
template <typename E, typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

}  // namespace tessera::test
