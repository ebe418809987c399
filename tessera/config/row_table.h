#pragma once

// A table of rows that go by a name, as a value: what there is of a kind (families, optimizers) is
// handed to whoever needs it, and a longer table adds to it without another line of the program.

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Copies share the rows.
template <typename Row>
class RowTable {
 public:
  using Name = std::string Row::*;

  explicit RowTable(std::vector<Row> rows) {
    for (Row& row : rows) add(std::move(row));
  }

  const std::vector<std::shared_ptr<const Row>>& rows() const { return rows_; }

 protected:
  void add(Row row) { rows_.push_back(std::make_shared<const Row>(std::move(row))); }

  /// nullptr when no row has this `value`.
  std::shared_ptr<const Row> find_by(Name name, std::string_view value) const {
    const auto found =
        std::ranges::find_if(rows_, [&](const auto& row) { return (*row).*name == value; });
    return found == rows_.end() ? nullptr : *found;
  }

  /// "llama, qwen3".
  std::string join(Name name) const {
    std::string text;
    for (const auto& row : rows_) text += (text.empty() ? "" : ", ") + (*row).*name;
    return text;
  }

 private:
  std::vector<std::shared_ptr<const Row>> rows_;
};

}  // namespace tessera
