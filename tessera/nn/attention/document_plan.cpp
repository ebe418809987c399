#include "tessera/nn/attention/document_plan.h"

#include <algorithm>
#include <map>

#include "tessera/base/error.h"

namespace tessera {

namespace {

// Up to this length a call costs more than the copies that grouping needs.
constexpr int64_t kGroupedLength = 64;

}  // namespace

std::vector<DocumentGroup> plan_documents(const LayerContext& context) {
  std::vector<std::pair<int64_t, int64_t>> documents;  // start, length
  for (int64_t row = 0; row < context.rows; ++row) {
    const int64_t base = row * context.seq_length;
    int64_t begin = 0;
    if (!context.document_ends.empty()) {
      for (const int64_t end : context.document_ends[static_cast<size_t>(row)]) {
        TESSERA_CHECK(end >= begin && end <= context.seq_length, "document end ", end);
        if (end > begin) documents.emplace_back(base + begin, end - begin);
        begin = end;
      }
    } else if (context.seq_length > 0) {
      documents.emplace_back(base, context.seq_length);
      begin = context.seq_length;
    }
    TESSERA_CHECK_EQ(begin, context.seq_length, "documents of row ", row);
  }

  const bool equal = std::all_of(documents.begin(), documents.end(), [&](const auto& document) {
    return document.second == documents.front().second;
  });
  std::vector<DocumentGroup> groups;
  std::map<int64_t, size_t> group_of_length;
  for (const auto& [start, length] : documents) {
    if (equal || length <= kGroupedLength) {
      const auto [found, added] = group_of_length.emplace(length, groups.size());
      if (!added) {
        groups[found->second].starts.push_back(start);
        continue;
      }
    }
    groups.push_back({length, {start}});
  }
  return groups;
}

}  // namespace tessera
