#include "tessera/checkpoint/stored_rows.h"

#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/storage/name_lists.h"

namespace tessera {

std::vector<StoredRow> stored_rows(const std::string& name, const ShardedParam& param,
                                   const at::Tensor& value) {
  TESSERA_CHECK(value.sizes() == at::IntArrayRef(param.box.sizes), name, " is ", value.sizes(),
                ", its box ", param.box.sizes);
  if (value.numel() == 0) return {};
  if (name.find("{e}") == std::string::npos) return {{name, param.shape, param.box, value}};
  const auto without_expert = [](const std::vector<int64_t>& all) {
    return std::vector<int64_t>(all.begin() + 1, all.end());
  };
  std::vector<StoredRow> rows;
  for (int64_t i = 0; i < param.box.sizes[0]; ++i) {
    rows.push_back({with_expert(name, param.box.offsets[0] + i),
                    without_expert(param.shape),
                    {without_expert(param.box.offsets), without_expert(param.box.sizes)},
                    value.select(0, i)});
  }
  return rows;
}

std::string state_name(const std::string& slot, const std::string& param) {
  return slot + "." + param;
}

}  // namespace tessera
