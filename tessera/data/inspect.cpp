#include "tessera/data/inspect.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {

namespace {

std::string prefix_of(const std::string& path) {
  const bool suffix = path.ends_with(".bin") || path.ends_with(".idx");
  return suffix ? path.substr(0, path.size() - 4) : path;
}

void read_tokens_of(const IndexedDataset& file, int64_t sequence, std::optional<int64_t> eod,
                    TokenFileReport& report) {
  constexpr int64_t kBlock = 1 << 16;
  std::vector<int64_t> ids;
  for (int64_t at = 0; at < file.length(sequence); at += kBlock) {
    ids.resize(static_cast<size_t>(std::min(kBlock, file.length(sequence) - at)));
    file.read(sequence, at, ids);
    const auto [smallest, largest] = std::minmax_element(ids.begin(), ids.end());
    if (*smallest < 0) {
      throw ConfigError(detail::concat(file.prefix(), ".bin: token id ", *smallest, " in sequence ",
                                       sequence, " at offset ", at + (smallest - ids.begin()),
                                       " is negative"));
    }
    report.smallest_id = std::min(report.smallest_id, *smallest);
    report.largest_id = std::max(report.largest_id, *largest);
    if (eod) report.eod_count += std::count(ids.begin(), ids.end(), *eod);
  }
}

}  // namespace

TokenFileReport inspect_token_file(const std::string& prefix, bool read_tokens,
                                   std::optional<int64_t> eod) {
  const IndexedDataset file(prefix_of(prefix));
  TokenFileReport report;
  report.prefix = file.prefix();
  report.dtype = file.dtype();
  report.sequences = file.sequence_count();
  report.documents = file.document_count();
  report.tokens = file.token_count();
  report.bin_bytes = file.bin_bytes();
  report.unused_bytes = report.bin_bytes - report.tokens * size_of(report.dtype);
  report.tokens_read = read_tokens;
  if (report.sequences == 0) return report;
  report.shortest = std::numeric_limits<int64_t>::max();
  if (read_tokens && report.tokens > 0) report.smallest_id = std::numeric_limits<int64_t>::max();
  for (int64_t i = 0; i < report.sequences; ++i) {
    report.shortest = std::min(report.shortest, file.length(i));
    report.longest = std::max(report.longest, file.length(i));
    if (read_tokens) read_tokens_of(file, i, eod, report);
  }
  report.mean_length = static_cast<double>(report.tokens) / static_cast<double>(report.sequences);
  return report;
}

std::string to_text(const TokenFileReport& report) {
  char mean[32];
  std::snprintf(mean, sizeof(mean), "%.1f", report.mean_length);
  std::string text = detail::concat(
      "token file  ", report.prefix, ".bin, .idx\n", "stored as   ", to_string(report.dtype), ", ",
      report.bin_bytes, " bytes\n", "sequences   ", report.sequences, "\n", "documents   ",
      report.documents, "\n", "tokens      ", report.tokens, "\n", "lengths     ", report.shortest,
      " to ", report.longest, ", mean ", mean, "\n");
  if (report.unused_bytes != 0) {
    // Negative where sequences share bytes.
    text += detail::concat("unused      ", report.unused_bytes, " bytes of the .bin\n");
  }
  if (report.tokens_read) {
    text += detail::concat("ids         ", report.smallest_id, " to ", report.largest_id,
                           " (every token was read)\n");
    if (report.eod_count > 0) text += detail::concat("EOD tokens  ", report.eod_count, "\n");
  }
  return text;
}

bool is_token_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(prefix_of(path) + ".idx", ignored);
}

}  // namespace tessera
