#include "tessera/checkpoint/hf_export.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/checkpoint_reader.h"
#include "tessera/checkpoint/element_scalar.h"
#include "tessera/checkpoint/safetensors.h"
#include "tessera/config/hf_config_writer.h"
#include "tessera/config/load.h"
#include "tessera/storage/checkpoint_choice.h"
#include "tessera/storage/iteration_folder.h"
#include "tessera/storage/tokenizer_files.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kPieceBytes = 64 << 20;

// A tensor of the files, made of one parameter or of several (ParamSpec::stack).
struct Exported {
  struct Part {
    const ParamSpec* spec;
    const StoredTensor* tensor;
  };

  std::string name;
  std::vector<int64_t> shape;
  ElementType dtype;
  std::vector<Part> parts;

  uint64_t bytes() const {
    auto bytes = static_cast<uint64_t>(size_of(dtype));
    for (const int64_t extent : shape) bytes *= static_cast<uint64_t>(extent);
    return bytes;
  }
};

Config config_of(const Manifest& manifest, const fs::path& folder, const FamilyTable& families) {
  const std::string name = (folder / kManifestName).string() + ": config";
  ConfigResult result = load_config_text(manifest.config, name, folder.string(),
                                         {"checkpoint.load_path=''"}, families);
  if (!result.ok()) throw CheckpointError(format_issues(result.issues));
  return std::move(result.config);
}

// Unless asked otherwise: what the model stores between steps; a checkpoint holds the masters.
ElementType exported_type(const ParamSpec& spec, const StoredTensor& tensor,
                          const ModelConfig& model) {
  if (!spec.trainable) return tensor.dtype;
  const DType stored =
      spec.role == ParamRole::kEmbedding ? model.embedding_params_dtype : model.params_dtype;
  return stored == DType::kBFloat16 ? ElementType::kBF16 : tensor.dtype;
}

// In the order of the model; as many a file as fit.
std::vector<std::vector<Exported>> plan_files(const Manifest& manifest, const ModelConfig& config,
                                              const std::vector<ParamSpec>& model,
                                              const HfExportOptions& options) {
  std::vector<std::vector<Exported>> files(1);
  std::map<std::string, std::pair<size_t, size_t>> stacks;  // name -> file, place in it
  uint64_t filled = 0;
  for (const ParamSpec& spec : model) {
    if (!spec.tied_to.empty()) continue;
    const StoredTensor& tensor = manifest.weights.at(spec.name);
    const Exported::Part part{&spec, &tensor};
    if (spec.stack) {
      const auto [at, added] =
          stacks.emplace(spec.stack->tensor, std::pair(files.size() - 1, files.back().size()));
      if (!added) {
        files[at->second.first][at->second.second].parts.push_back(part);
        continue;
      }
    }
    const Exported next{
        spec.stack ? spec.stack->tensor : spec.name,
        spec.stack ? spec.stack->shape : tensor.shape,
        options.dtype ? element_type(*options.dtype) : exported_type(spec, tensor, config),
        {part}};
    if (filled > 0 && filled + next.bytes() > options.shard_bytes) {
      files.emplace_back();
      filled = 0;
      if (spec.stack) stacks[spec.stack->tensor] = {files.size() - 1, 0};
    }
    filled += next.bytes();
    files.back().push_back(next);
  }
  return files;
}

at::Tensor read(CheckpointReader& reader, const StoredTensor& tensor, const Box& box) {
  at::Tensor piece = at::empty(box.sizes, at::TensorOptions().dtype(scalar_type(tensor.dtype)));
  reader.read_box(tensor, box, piece);
  return piece;
}

Box whole_box(const StoredTensor& tensor) {
  return {std::vector<int64_t>(tensor.shape.size(), 0), tensor.shape};
}

// A tensor as it is, some rows at a time.
void write_rows(CheckpointReader& reader, const StoredTensor& tensor, SafetensorsWriter& writer) {
  Box box = whole_box(tensor);
  const int64_t rows = box.sizes.empty() ? 1 : box.sizes[0];
  if (box.numel() == 0) return;
  const int64_t element = size_of(tensor.dtype);
  const int64_t step = std::max<int64_t>(1, kPieceBytes / (box.numel() / rows * element));
  for (int64_t row = 0; row < rows; row += step) {
    if (!box.sizes.empty()) {
      box.offsets[0] = row;
      box.sizes[0] = std::min(step, rows - row);
    }
    writer.append(read(reader, tensor, box));
  }
}

// Parts that share a prefix, put together as the published tensor has them.
void write_stacked(CheckpointReader& reader, const std::vector<Exported::Part>& parts,
                   SafetensorsWriter& writer) {
  std::vector<int64_t> shape = parts.front().tensor->shape;
  shape[0] = 0;
  for (const Exported::Part& part : parts) shape[0] += part.tensor->shape[0];
  at::Tensor all =
      at::empty(shape, at::TensorOptions().dtype(scalar_type(parts.front().tensor->dtype)));
  for (const auto& [spec, tensor] : parts) {
    const StackPlace& place = *spec->stack;
    const int64_t end = place.first_row + (tensor->shape[0] - 1) * place.row_step + 1;
    all.slice(0, place.first_row, end, place.row_step)
        .copy_(read(reader, *tensor, whole_box(*tensor)));
  }
  writer.append(parts.front().spec->stack->transposed ? all.t().contiguous() : all);
}

void write_tensor(CheckpointReader& reader, const Exported& exported, SafetensorsWriter& writer) {
  const auto& first = exported.parts.front().spec->stack;
  const bool row_by_row =
      !first || (first->prefix.empty() && first->row_step == 1 && !first->transposed);
  if (row_by_row) {
    for (const Exported::Part& part : exported.parts) write_rows(reader, *part.tensor, writer);
    return;
  }
  for (auto begin = exported.parts.begin(); begin != exported.parts.end();) {
    const auto end = std::find_if(begin, exported.parts.end(), [&](const Exported::Part& part) {
      return part.spec->stack->prefix != begin->spec->stack->prefix;
    });
    write_stacked(reader, {begin, end}, writer);
    begin = end;
  }
}

std::string file_name(size_t file, size_t files) {
  if (files == 1) return "model.safetensors";
  char text[64];
  std::snprintf(text, sizeof(text), "model-%05zu-of-%05zu.safetensors", file + 1, files);
  return text;
}

uint64_t write_weights(CheckpointReader& reader, const std::vector<std::vector<Exported>>& files,
                       const fs::path& folder) {
  uint64_t total = 0;
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (size_t f = 0; f < files.size(); ++f) {
    const std::string name = file_name(f, files.size());
    std::vector<SafetensorsEntry> entries;
    for (const Exported& exported : files[f]) {
      SafetensorsEntry entry;
      entry.name = exported.name;
      entry.dtype = exported.dtype;
      entry.shape = exported.shape;
      entries.push_back(std::move(entry));
      map[exported.name] = name;
      total += exported.bytes();
    }
    SafetensorsWriter writer(folder / name, std::move(entries), {{"format", "pt"}});
    for (const Exported& exported : files[f]) write_tensor(reader, exported, writer);
    writer.close();
  }
  if (files.size() > 1) {
    const nlohmann::ordered_json index = {{"metadata", {{"total_size", total}}},
                                          {"weight_map", std::move(map)}};
    write_file_durably(folder / "model.safetensors.index.json", index.dump(2) + "\n");
  }
  return total;
}

}  // namespace

std::string export_to_hf(const HfExportOptions& options) {
  std::error_code error;
  const fs::path output = plain_path(fs::absolute(options.output));
  if (fs::exists(output, error) && !(fs::is_directory(output, error) && fs::is_empty(output))) {
    throw ConfigError(output.string() + ": is there already and not empty");
  }
  if (!fs::is_directory(options.checkpoint, error)) {
    throw CheckpointError(options.checkpoint.string() + ": no such folder");
  }
  if (!options.tokenizer.empty() && !has_tokenizer(options.tokenizer)) {
    throw ConfigError("--tokenizer " + options.tokenizer.string() + ": holds no tokenizer files");
  }
  const CheckpointChoice choice = checkpoints_at(options.checkpoint);
  if (!choice.note.empty()) log_warning(choice.note);
  CheckpointReader reader(choice.folders.front());
  const Config config = config_of(reader.manifest(), reader.folder(), options.families);
  const std::vector<ParamSpec> model = model_spec(config.model);
  const std::string report = compare_with_model(reader.manifest(), model);
  TESSERA_CHECK(report.empty(), reader.folder().string(), report);
  const auto files = plan_files(reader.manifest(), config.model, model, options);

  const fs::path writing = output.string() + ".writing";
  fs::remove_all(writing, error);
  if (!fs::create_directories(writing, error) || error) {
    throw ConfigError(writing.string() + ": cannot be created: " + error.message());
  }
  try {
    const uint64_t bytes = write_weights(reader, files, writing);
    write_file_durably(writing / kModelConfigName,
                       hf_config_json(config.model, weight_dtype(files.front().front().dtype)));
    fs::path tokenizer = options.tokenizer;  // else the checkpoint's own, else the run's
    if (tokenizer.empty()) {
      tokenizer =
          has_tokenizer(reader.folder()) ? reader.folder() : fs::path(reader.manifest().tokenizer);
    }
    const std::vector<std::string> copied = copy_tokenizer_files(tokenizer, writing);
    flush_folder(writing);
    fs::remove(output, error);
    fs::rename(writing, output, error);
    if (error) throw ConfigError(output.string() + ": " + error.message());
    flush_folder(output.parent_path());
    std::string text =
        detail::concat(output.string(), ": ", reader.folder().string(), " (step ",
                       reader.manifest().position.step, "), ", bytes, " bytes of weights in ",
                       files.size(), files.size() == 1 ? " file" : " files");
    if (!copied.empty()) {
      text += detail::concat(", ", copied.size(), " tokenizer files of ", tokenizer.string());
    } else if (!tokenizer.empty()) {
      text += ", no tokenizer files (none at " + tokenizer.string() + ")";
    }
    return text + "\n";
  } catch (...) {
    fs::remove_all(writing, error);
    throw;
  }
}

}  // namespace tessera
