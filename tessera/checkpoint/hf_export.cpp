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
#include "tessera/checkpoint/weight_source.h"
#include "tessera/config/hf_config_writer.h"
#include "tessera/config/load.h"
#include "tessera/storage/adapter_config.h"
#include "tessera/storage/checkpoint_choice.h"
#include "tessera/storage/fingerprint.h"
#include "tessera/storage/iteration_folder.h"
#include "tessera/storage/published_weights.h"
#include "tessera/storage/tokenizer_files.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kPieceBytes = 64 << 20;

// A tensor of the files, made of one parameter or of several (ParamSpec::stack).
struct Exported {
  std::string name;
  std::vector<int64_t> shape;
  ElementType dtype;
  std::vector<const ParamSpec*> parts;

  uint64_t bytes() const {
    auto bytes = static_cast<uint64_t>(size_of(dtype));
    for (const int64_t extent : shape) bytes *= static_cast<uint64_t>(extent);
    return bytes;
  }
};

Config config_of(const Manifest& manifest, const fs::path& folder, const FamilyTable& families) {
  const std::string name = (folder / kManifestName).string() + ": config";
  ConfigResult result =
      load_config_text(manifest.config, name, folder.string(),
                       {"checkpoint.load_path=''", "checkpoint.base_load_path=''"}, families);
  if (!result.ok()) throw CheckpointError(format_issues(result.issues));
  return std::move(result.config);
}

// Unless asked otherwise: what the model stores between steps; a checkpoint holds the masters.
ElementType exported_type(const ParamSpec& spec, ElementType there, const ModelConfig& model) {
  if (!spec.trainable || spec.frozen) return there;
  const DType stored =
      spec.role == ParamRole::kEmbedding ? model.embedding_params_dtype : model.params_dtype;
  return stored == DType::kBFloat16 ? ElementType::kBF16 : there;
}

// In the order of the model; as many a file as fit.
std::vector<std::vector<Exported>> plan_files(const WeightSource& source, const ModelConfig& config,
                                              const std::vector<ParamSpec>& model,
                                              const HfExportOptions& options) {
  const bool alone = options.adapters == HfExportOptions::Adapters::kAlone;
  std::vector<std::vector<Exported>> files(1);
  std::map<std::string, std::pair<size_t, size_t>> stacks;  // name -> file, place in it
  uint64_t filled = 0;
  for (const ParamSpec& spec : model) {
    if (!spec.tied_to.empty()) continue;
    if (spec.stack) {
      const auto [at, added] =
          stacks.emplace(spec.stack->tensor, std::pair(files.size() - 1, files.back().size()));
      if (!added) {
        files[at->second.first][at->second.second].parts.push_back(&spec);
        continue;
      }
    }
    const Exported next{spec.stack ? spec.stack->tensor : (alone ? kAdapterPrefix : "") + spec.name,
                        spec.stack ? spec.stack->shape : spec.shape,
                        options.dtype ? element_type(*options.dtype)
                                      : exported_type(spec, source.type(spec), config),
                        {&spec}};
    if (!alone && filled > 0 && filled + next.bytes() > options.shard_bytes) {
      files.emplace_back();
      filled = 0;
      if (spec.stack) stacks[spec.stack->tensor] = {files.size() - 1, 0};
    }
    filled += next.bytes();
    files.back().push_back(next);
  }
  return files;
}

Box whole_box(const ParamSpec& spec) {
  return {std::vector<int64_t>(spec.shape.size(), 0), spec.shape};
}

// A tensor as it is, some rows at a time.
void write_rows(WeightSource& source, const ParamSpec& spec, SafetensorsWriter& writer) {
  Box box = whole_box(spec);
  const int64_t rows = box.sizes.empty() ? 1 : box.sizes[0];
  if (box.numel() == 0) return;
  const int64_t element = size_of(source.type(spec));
  const int64_t step = std::max<int64_t>(1, kPieceBytes / (box.numel() / rows * element));
  for (int64_t row = 0; row < rows; row += step) {
    if (!box.sizes.empty()) {
      box.offsets[0] = row;
      box.sizes[0] = std::min(step, rows - row);
    }
    writer.append(source.read(spec, box));
  }
}

// Parts that share a prefix, put together as the published tensor has them.
void write_stacked(WeightSource& source, const std::vector<const ParamSpec*>& parts,
                   SafetensorsWriter& writer) {
  std::vector<int64_t> shape = parts.front()->shape;
  shape[0] = 0;
  for (const ParamSpec* part : parts) shape[0] += part->shape[0];
  at::Tensor all;
  for (const ParamSpec* part : parts) {
    const StackPlace& place = *part->stack;
    const int64_t end = place.first_row + (part->shape[0] - 1) * place.row_step + 1;
    const at::Tensor read = source.read(*part, whole_box(*part));
    if (!all.defined()) all = at::empty(shape, read.options());
    all.slice(0, place.first_row, end, place.row_step).copy_(read);
  }
  writer.append(parts.front()->stack->transposed ? all.t().contiguous() : all);
}

void write_tensor(WeightSource& source, const Exported& exported, SafetensorsWriter& writer) {
  const auto& first = exported.parts.front()->stack;
  const bool row_by_row =
      !first || (first->prefix.empty() && first->row_step == 1 && !first->transposed);
  if (row_by_row) {
    for (const ParamSpec* part : exported.parts) write_rows(source, *part, writer);
    return;
  }
  for (auto begin = exported.parts.begin(); begin != exported.parts.end();) {
    const auto end = std::find_if(begin, exported.parts.end(), [&](const ParamSpec* part) {
      return part->stack->prefix != (*begin)->stack->prefix;
    });
    write_stacked(source, {begin, end}, writer);
    begin = end;
  }
}

std::string file_name(size_t file, size_t files, bool adapters) {
  if (adapters) return kAdapterWeights;
  if (files == 1) return "model.safetensors";
  char text[64];
  std::snprintf(text, sizeof(text), "model-%05zu-of-%05zu.safetensors", file + 1, files);
  return text;
}

uint64_t write_weights(WeightSource& source, const std::vector<std::vector<Exported>>& files,
                       const fs::path& folder, bool adapters) {
  uint64_t total = 0;
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (size_t f = 0; f < files.size(); ++f) {
    const std::string name = file_name(f, files.size(), adapters);
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
    for (const Exported& exported : files[f]) write_tensor(source, exported, writer);
    writer.close();
  }
  if (files.size() > 1) {
    const nlohmann::ordered_json index = {{"metadata", {{"total_size", total}}},
                                          {"weight_map", std::move(map)}};
    write_file_durably(folder / "model.safetensors.index.json", index.dump(2) + "\n");
  }
  return total;
}

// What is exported, and where it is read.
class Weights {
 public:
  Weights(CheckpointReader& reader, const Config& config, const HfExportOptions& options)
      : checkpoint_(source_of_checkpoint(reader)) {
    using Adapters = HfExportOptions::Adapters;
    const bool adapted = config.model.lora.is_given();
    const bool alone = !reader.manifest().base.empty();
    if (adapted != (options.adapters != Adapters::kNone)) {
      throw ConfigError(adapted
                            ? reader.folder().string() +
                                  ": of a run with lora_config: --adapter writes the adapters "
                                  "alone, --merge the model with them added to its weights"
                            : reader.folder().string() +
                                  ": of a run without lora_config: it has no adapters to write");
    }
    base_ = options.base.empty() ? fs::path(base_path_of(reader.manifest())) : options.base;
    const std::vector<ParamSpec> all = model_spec(config.model);
    const std::string report = compare_with_model(
        reader.manifest(), select_rows(all, alone ? WeightRows::kAdapters : WeightRows::kAll));
    TESSERA_CHECK(report.empty(), reader.folder().string(), report);
    model_ = select_rows(
        all, options.adapters == Adapters::kAlone ? WeightRows::kAdapters : WeightRows::kBase);
    if (options.adapters != Adapters::kMerged) return;
    if (alone && base_.empty()) {
      throw ConfigError(reader.folder().string() +
                        ": holds adapters alone: --base FOLDER names their model");
    }
    if (alone && weights_fingerprint(folder_of(base_)) != reader.manifest().base) {
      throw CheckpointError(base_.string() +
                            ": is not the model that the adapters were trained on");
    }
    if (alone) outside_ = source_at(base_, model_);
    merged_ = merged_source(outside_ ? *outside_ : *checkpoint_, *checkpoint_, config.model);
  }

  const std::vector<ParamSpec>& model() const { return model_; }
  WeightSource& source() const { return merged_ ? *merged_ : *checkpoint_; }
  const fs::path& base() const { return base_; }

 private:
  static fs::path folder_of(const fs::path& path) {
    return holds_published_weights(path) ? path : checkpoints_at(path).folders.front();
  }

  std::unique_ptr<WeightSource> checkpoint_, outside_, merged_;
  std::vector<ParamSpec> model_;
  fs::path base_;
};

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
  const Weights weights(reader, config, options);
  const auto files = plan_files(weights.source(), config.model, weights.model(), options);
  const bool alone = options.adapters == HfExportOptions::Adapters::kAlone;

  const fs::path writing = output.string() + ".writing";
  fs::remove_all(writing, error);
  if (!fs::create_directories(writing, error) || error) {
    throw ConfigError(writing.string() + ": cannot be created: " + error.message());
  }
  try {
    const uint64_t bytes = write_weights(weights.source(), files, writing, alone);
    if (alone) {
      write_file_durably(writing / kAdapterConfig,
                         adapter_config_json(config.model, weights.base().string()));
    } else {
      write_file_durably(writing / kModelConfigName,
                         hf_config_json(config.model, weight_dtype(files.front().front().dtype),
                                        published_config(reader.folder().string())));
    }
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
