#include "tessera/checkpoint/inspect.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/checkpoint/checkpoint_reader.h"
#include "tessera/checkpoint/element_scalar.h"
#include "tessera/checkpoint/safetensors.h"
#include "tessera/storage/checkpoint_choice.h"
#include "tessera/storage/iteration_folder.h"
#include "tessera/storage/name_lists.h"
#include "tessera/storage/published_weights.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

std::string size_text(uint64_t bytes) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.3f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

uint64_t bytes_of(const std::vector<StoredFile>& files) {
  uint64_t bytes = 0;
  for (const StoredFile& file : files) bytes += file.bytes;
  return bytes;
}

int64_t elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

void line(std::ostream& out, const std::string& name, const std::string& shape,
          std::string_view dtype, const std::string& more) {
  out << "  " << name << std::string(name.size() < 56 ? 56 - name.size() : 1, ' ') << shape << ' '
      << dtype << more << '\n';
}

void print_tensors(std::ostream& out, const std::map<std::string, StoredTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    line(out, name, shape_text(tensor.shape), name_of(tensor.dtype),
         tensor.parts.size() == 1 ? "" : ", " + std::to_string(tensor.parts.size()) + " parts");
  }
}

std::string pairs(const std::map<std::string, std::string>& values) {
  std::string text;
  for (const auto& [key, value] : values) text += (text.empty() ? "" : ", ") + key + " " + value;
  return text;
}

// All bytes, or what a look at the files tells; what is missing without loss is returned.
std::vector<std::string> check(const CheckpointReader& reader, bool verify) {
  if (!verify) return reader.check_files();
  reader.verify();
  return {};
}

std::string describe_checkpoint(const fs::path& folder, bool verify) {
  const CheckpointReader reader(folder);
  const std::vector<std::string> notes = check(reader, verify);
  const Manifest& m = reader.manifest();
  int64_t parameters = 0;
  for (const auto& [name, tensor] : m.weights) parameters += elements(tensor.shape);
  std::ostringstream out;
  out << folder.string() << ": checkpoint of tessera " << m.version << '\n'
      << "step " << m.position.step << ", " << m.position.samples << " samples, batch "
      << m.position.effective_batch << '\n'
      << "saved by: " << pairs(m.position.layout) << '\n'
      << "data: " << pairs(m.position.data) << '\n'
      << "schedule: " << pairs(m.position.schedule) << '\n'
      << "random: " << pairs(m.position.random) << '\n'
      << "parameters: " << parameters << " in " << m.weights.size() << " tensors\n"
      << "optimizer: "
      << (m.optimizer.empty() ? "not saved" : m.optimizer + ", moments " + m.moment_dtype) << '\n'
      << "files: " << m.files.size() << " (" << size_text(bytes_of(m.files))
      << "), copies and others: " << m.copies.size() << " (" << size_text(bytes_of(m.copies))
      << ")\n"
      << (verify          ? "every checksum is right\n"
          : notes.empty() ? "every file is there and has its size\n"
                          : "every file that a load needs is there and has its size\n");
  for (const std::string& note : notes) out << note << '\n';
  out << "weights:\n";
  print_tensors(out, m.weights);
  if (!m.state.empty()) out << "state of the optimizer:\n";
  print_tensors(out, m.state);
  return out.str();
}

std::string describe_root(const fs::path& root, bool verify) {
  const auto pointed = read_pointer(root);
  std::ostringstream out;
  out << root.string() << ": checkpoints; the pointer names "
      << (pointed ? "step " + std::to_string(*pointed) : std::string("none")) << '\n';
  std::string damage;
  for (const int64_t step : list_iterations(root)) {
    const fs::path folder = root / iteration_name(step);
    out << "  " << folder.filename().string() << ": ";
    try {
      const CheckpointReader reader(folder);
      const std::vector<std::string> notes = check(reader, verify);
      const Manifest& m = reader.manifest();
      for (const std::string& note : notes) out << note << "; ";
      out << m.position.samples << " samples, " << size_text(bytes_of(m.files) + bytes_of(m.copies))
          << (verify ? ", every checksum is right\n" : "\n");
    } catch (const CheckpointError& error) {
      out << error.what() << '\n';
      damage += (damage.empty() ? "" : "\n") + std::string(error.what());
    }
  }
  if (verify && !damage.empty()) throw CheckpointError(damage);
  return out.str();
}

// NaN or infinite elements of a tensor; read in pieces.
void check_finite(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  if (!at::isFloatingType(scalar_type(entry.dtype)) || entry.shape.empty()) return;
  constexpr int64_t kElements = 8 << 20;
  const int64_t row =
      std::max<int64_t>(1, elements(entry.shape) / std::max<int64_t>(1, entry.shape[0]));
  const int64_t step = std::max<int64_t>(1, kElements / row);
  for (int64_t at = 0; at < entry.shape[0]; at += step) {
    Box box{std::vector<int64_t>(entry.shape.size(), 0), entry.shape};
    box.offsets[0] = at;
    box.sizes[0] = std::min(step, entry.shape[0] - at);
    if (!at::isfinite(file.read_box(entry.name, box)).all().item<bool>()) {
      throw CheckpointError(file.path().string() + ": '" + entry.name +
                            "' holds infinite values or ones that are not a number");
    }
  }
}

struct WeightFiles {
  uint64_t bytes = 0;  // of the files
  int64_t parameters = 0;
  size_t tensors = 0;
  std::ostringstream lines;  // one a tensor

  // Opens and checks one more.
  SafetensorsFile add(const fs::path& path, bool verify) {
    SafetensorsFile file(path);
    bytes += fs::file_size(path);
    for (const auto& [name, entry] : file.entries()) {
      if (verify) check_finite(file, entry);
      line(lines, name, shape_text(entry.shape), name_of(entry.dtype),
           ", " + std::to_string(entry.bytes()) + " bytes");
      parameters += elements(entry.shape);
      ++tensors;
    }
    return file;
  }
};

std::string describe_hf(const fs::path& folder, bool verify) {
  WeightFiles weights;
  const std::vector<fs::path> files = published_weight_files(folder);
  for (const fs::path& path : files) weights.add(path, verify);
  std::ostringstream out;
  out << folder.string() << ": weights in Hugging Face's form\n"
      << "parameters: " << weights.parameters << " in " << weights.tensors << " tensors\n"
      << "files: " << files.size() << " (" << size_text(weights.bytes) << ")\n"
      << (verify ? "every weight is finite\n" : "every header is sound\n") << "weights:\n"
      << weights.lines.str();
  return out.str();
}

}  // namespace

std::string inspect_folder(const fs::path& given, bool verify) {
  const fs::path folder = plain_path(given);
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw CheckpointError(folder.string() + ": no such folder");
  }
  if (fs::exists(folder / kManifestName)) return describe_checkpoint(folder, verify);
  if (holds_published_weights(folder)) return describe_hf(folder, verify);
  if (holds_adapters(folder)) return inspect_weight_file(folder / kAdapterWeights, verify);
  checkpoints_at(folder);  // says what is there instead
  return describe_root(folder, verify);
}

std::string inspect_weight_file(const fs::path& path, bool verify) {
  WeightFiles weights;
  const SafetensorsFile file = weights.add(path, verify);
  std::map<std::string_view, uint64_t> by_dtype;
  for (const auto& [name, entry] : file.entries()) {
    by_dtype[name_of(entry.dtype)] += entry.bytes();
  }
  std::ostringstream out;
  out << path.string() << ": safetensors, " << size_text(weights.bytes) << '\n'
      << "elements: " << weights.parameters << " in " << weights.tensors << " tensors";
  for (const auto& [dtype, bytes] : by_dtype) out << "; " << dtype << ' ' << size_text(bytes);
  out << '\n';
  if (!file.metadata().empty()) out << "metadata: " << pairs(file.metadata()) << '\n';
  out << (verify ? "every element is finite\n" : "the header is sound\n") << "tensors:\n"
      << weights.lines.str();
  return out.str();
}

}  // namespace tessera
