#include "tessera/checkpoint/hf_export.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
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

struct Exported {
  std::string name;
  const StoredTensor* tensor;
  ElementType dtype;

  uint64_t bytes() const {
    auto bytes = static_cast<uint64_t>(size_of(dtype));
    for (const int64_t extent : tensor->shape) bytes *= static_cast<uint64_t>(extent);
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
  uint64_t filled = 0;
  for (const ParamSpec& spec : model) {
    if (!spec.tied_to.empty()) continue;
    const StoredTensor& tensor = manifest.weights.at(spec.name);
    const Exported next{
        spec.name, &tensor,
        options.dtype ? element_type(*options.dtype) : exported_type(spec, tensor, config)};
    if (filled > 0 && filled + next.bytes() > options.shard_bytes) {
      files.emplace_back();
      filled = 0;
    }
    filled += next.bytes();
    files.back().push_back(next);
  }
  return files;
}

void write_tensor(CheckpointReader& reader, const Exported& exported, SafetensorsWriter& writer) {
  Box box{std::vector<int64_t>(exported.tensor->shape.size(), 0), exported.tensor->shape};
  const int64_t rows = box.sizes.empty() ? 1 : box.sizes[0];
  if (box.numel() == 0) return;
  const int64_t element = size_of(exported.tensor->dtype);
  const int64_t step = std::max<int64_t>(1, kPieceBytes / (box.numel() / rows * element));
  for (int64_t row = 0; row < rows; row += step) {
    if (!box.sizes.empty()) {
      box.offsets[0] = row;
      box.sizes[0] = std::min(step, rows - row);
    }
    at::Tensor piece =
        at::empty(box.sizes, at::TensorOptions().dtype(scalar_type(exported.tensor->dtype)));
    reader.read_box(*exported.tensor, box, piece);
    writer.append(piece);
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
      entry.shape = exported.tensor->shape;
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
