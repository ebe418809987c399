// Targets of what weights and checkpoints say of themselves: headers, indices, manifests.

#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/storage/block_sums.h"
#include "tessera/storage/checkpoint_choice.h"
#include "tessera/storage/published_weights.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"

namespace tessera::fuzz {
namespace {

// A model of few parameters, one of them an expert's and one tied.
std::vector<ParamSpec> small_model() {
  std::vector<ParamSpec> model(4);
  model[0].name = "model.embed_tokens.weight";
  model[0].shape = {6, 4};
  model[1].name = "model.layers.0.mlp.experts.1.up_proj.weight";
  model[1].shape = {2, 4};
  model[1].expert = 1;
  model[2].name = "model.norm.weight";
  model[2].shape = {4};
  model[3].name = "lm_head.weight";
  model[3].shape = {6, 4};
  model[3].tied_to = model[0].name;
  return model;
}

std::string published_folder() {
  const std::filesystem::path folder = scratch_folder() / "published";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  return folder.filename().string() + "/";
}

void compare_published() {
  try {
    const PublishedWeights weights(scratch_folder() / "published", small_model());
    weights.problem();
    weights.unused();
    for (const auto& [name, place] : weights.places()) {
      if (weights.entry(place).end < weights.entry(place).begin) abort();
    }
  } catch (const CheckpointError&) {
  }
}

void parse(const std::string& text) {
  try {
    const Manifest manifest = parse_manifest(text, "manifest.json");
    const std::string written = manifest_text(manifest);
    if (manifest_text(parse_manifest(written, "again")) != written) abort();
    compare_with_model(manifest, small_model());
    optimizer_problem(manifest, "AdamW", true);
  } catch (const CheckpointError&) {
  }
}

}  // namespace

void read_weights(std::string_view input) {
  const std::string file = published_folder() + "model.safetensors";
  scratch_file(file, input);
  compare_published();
  if (input.size() < 2) return;
  // The same as a header of the right length, in front of as many bytes as the first two say.
  const size_t data_bytes =
      static_cast<unsigned char>(input[0]) * 256u + static_cast<unsigned char>(input[1]);
  const std::string_view json = input.substr(2);
  std::string whole;
  for (int i = 0; i < 8; ++i) whole += static_cast<char>(json.size() >> (8 * i) & 0xFF);
  scratch_file(file, whole.append(json).append(data_bytes, '\0'));
  compare_published();
}

void read_weight_index(std::string_view input) {
  const std::string folder = published_folder();
  scratch_file(folder + "model.safetensors.index.json", input);
  const std::string header =
      R"({"model.norm.weight":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})";
  std::string whole;
  for (int i = 0; i < 8; ++i) whole += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  for (const char* shard : {"a", "b"}) scratch_file(folder + shard, whole + header);
  compare_published();
}

void read_manifest_text(std::string_view input) {
  parse(std::string(input));
  if (!input.ends_with('}')) return;
  // The same with a checksum that is right.
  const std::string sum = to_hex({block_sum(input.data(), input.size())});
  input.remove_suffix(1);
  parse(std::string(input) + ",\"manifest_checksum\":\"" + sum + "\"}\n");
}

}  // namespace tessera::fuzz
