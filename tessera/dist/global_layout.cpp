#include "tessera/dist/global_layout.h"

#include <ATen/ATen.h>

#include <map>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/dist/gather_text.h"

namespace tessera {
namespace {

// Distinguishes the messages of assemble() from those of a pipeline over the same ranks.
constexpr int64_t kAssembleTag = 0x21736d;

void write(std::ostringstream& out, const std::vector<int64_t>& numbers) {
  for (int64_t number : numbers) out << ' ' << number;
}

std::vector<int64_t> read(std::istringstream& in, int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  for (int64_t& number : numbers) in >> number;
  return numbers;
}

// One line per parameter: name dtype dimensions shape primary offsets sizes.
std::string describe(const ParamTable& table) {
  std::ostringstream out;
  for (const auto& param : table.params()) {
    out << param->name << ' ' << static_cast<int>(param->value.scalar_type()) << ' '
        << param->shape.size();
    write(out, param->shape);
    out << ' ' << param->primary;
    write(out, param->box.offsets);
    write(out, param->box.sizes);
    out << '\n';
  }
  return out.str();
}

at::Tensor view_of(const at::Tensor& full, const Box& box) {
  at::Tensor view = full;
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    view = view.narrow(static_cast<int64_t>(d), box.offsets[d], box.sizes[d]);
  }
  return view;
}

}  // namespace

std::vector<GlobalParam> gather_layout(const ParamTable& table, const ProcessGroup& world) {
  std::vector<GlobalParam> result;
  std::map<std::string, size_t> index;
  const std::vector<std::string> texts = gather_texts(world, describe(table));
  for (int rank = 0; rank < world.size(); ++rank) {
    std::istringstream lines(texts[static_cast<size_t>(rank)]);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      GlobalParam param;
      int dtype = 0;
      int64_t dims = 0;
      bool primary = false;
      words >> param.name >> dtype >> dims;
      param.dtype = static_cast<at::ScalarType>(dtype);
      param.shape = read(words, dims);
      words >> primary;
      Box box;
      box.offsets = read(words, dims);
      box.sizes = read(words, dims);
      TESSERA_CHECK(!words.fail(), "layout of rank ", rank, ": ", line);
      const auto [at, added] = index.try_emplace(param.name, result.size());
      if (added) result.push_back(param);
      GlobalParam& known = result[at->second];
      TESSERA_CHECK(known.shape == param.shape && known.dtype == param.dtype, param.name,
                    " has another shape or dtype on rank ", rank);
      if (primary && box.numel() > 0) known.boxes.push_back({world.ranks()[rank], std::move(box)});
    }
  }
  for (const GlobalParam& param : result) {
    int64_t held = 0;
    for (const OwnedBox& owned : param.boxes) held += owned.box.numel();
    int64_t whole = 1;
    for (int64_t extent : param.shape) whole *= extent;
    TESSERA_CHECK_EQ(held, whole, "elements held of ", param.name);
  }
  return result;
}

at::Tensor assemble(const GlobalParam& param, const at::Tensor& part, at::ScalarType dtype,
                    const ProcessGroup& world, int root) {
  const int rank = world.rank();
  at::Tensor full;
  if (rank == root) full = at::empty(param.shape, at::dtype(dtype));
  for (const OwnedBox& owned : param.boxes) {
    if (owned.rank == rank) {
      TESSERA_CHECK(part.defined() && part.sizes() == at::IntArrayRef(owned.box.sizes) &&
                        part.scalar_type() == dtype,
                    "part of ", param.name);
      if (rank == root) {
        view_of(full, owned.box).copy_(part);
      } else {
        world.send(part.detach().cpu().contiguous(), root, kAssembleTag).wait();
      }
    } else if (rank == root) {
      at::Tensor received = at::empty(owned.box.sizes, at::dtype(dtype));
      world.recv(received, owned.rank, kAssembleTag).wait();
      view_of(full, owned.box).copy_(received);
    }
  }
  return full;
}

at::Tensor assemble_everywhere(const GlobalParam& param, const at::Tensor& part,
                               at::ScalarType dtype, const ProcessGroup& world) {
  at::Tensor full = assemble(param, part, dtype, world, 0);
  if (world.rank() != 0) full = at::empty(param.shape, at::dtype(dtype));
  world.broadcast({full}, 0).wait();
  return full;
}

}  // namespace tessera
