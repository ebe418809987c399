#include <algorithm>

#include "tessera/schedule/draw.h"

namespace tessera {
namespace {

std::string padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

}  // namespace

std::string schedule_table(const PipelineSchedule& schedule, int64_t width) {
  const auto ranks = static_cast<int64_t>(schedule.ranks.size());
  std::vector<std::vector<std::string>> columns;  // [column][rank]
  for (int64_t rank = 0; rank < ranks; ++rank) {
    for (const Action& a : schedule.ranks[rank]) {
      if (!is_compute(a)) continue;
      if (a.column >= static_cast<int64_t>(columns.size())) {
        columns.resize(a.column + 1, std::vector<std::string>(ranks, "."));
      }
      columns[a.column][rank] = to_string(a);
    }
  }
  // Columns in which no rank does anything say nothing.
  std::erase_if(columns, [](const std::vector<std::string>& column) {
    return std::all_of(column.begin(), column.end(), [](const auto& cell) { return cell == "."; });
  });

  const std::string label = "rank " + std::to_string(ranks - 1) + "  ";
  std::string text;
  std::vector<std::string> block(ranks);
  const auto flush = [&] {
    if (block[0].empty()) return;
    if (!text.empty()) text += "\n";
    for (int64_t rank = 0; rank < ranks; ++rank) {
      std::string& row = block[rank];
      row.erase(row.find_last_not_of(' ') + 1);
      text += padded("rank " + std::to_string(rank), label.size()) + row + "\n";
      row.clear();
    }
  };
  for (const std::vector<std::string>& column : columns) {
    size_t cell = 0;
    for (const std::string& entry : column) cell = std::max(cell, entry.size() + 1);
    if (static_cast<int64_t>(label.size() + block[0].size() + cell) > width) flush();
    for (int64_t rank = 0; rank < ranks; ++rank) block[rank] += padded(column[rank], cell);
  }
  flush();
  return text;
}

}  // namespace tessera
