#include "tessera/storage/other_folders.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/storage/iteration_folder.h"
#include "tessera/storage/manifest.h"
#include "tessera/storage/published_weights.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr size_t kNamed = 3;  // of several things, in a message

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// What lies in `folder`, by name; nothing when it cannot be read.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path());
  }
  std::ranges::sort(entries);
  return entries;
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool can_be_loaded(const fs::path& folder) {
  return holds_published_weights(folder) || is_there(folder / kManifestName) ||
         !list_iterations(folder).empty();
}

std::string names_of(const std::vector<fs::path>& paths, bool whole) {
  std::string text;
  for (size_t i = 0; i < std::min(paths.size(), kNamed); ++i) {
    text += (i ? ", " : "") + (whole ? paths[i] : paths[i].filename()).string();
  }
  return text + (paths.size() > kNamed ? ", ..." : "");
}

std::vector<fs::path> loadable_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const fs::path& entry : entries_of(folder)) {
    if (is_folder(entry) && can_be_loaded(entry)) found.push_back(entry);
  }
  return found;
}

// A hub's cache keeps models--org--name/{blobs, refs, snapshots/<commit>}; refs/main names a
// commit.
std::string of_hub_cache(const fs::path& path) {
  const fs::path snapshots = path.filename() == "snapshots" ? path : path / "snapshots";
  if (path.filename().string().starts_with("models--") || is_folder(path / "snapshots") ||
      (path.filename() == "snapshots" && is_there(path.parent_path() / "refs"))) {
    std::string commit;
    std::ifstream(snapshots.parent_path() / "refs" / "main") >> commit;
    if (!commit.empty() && can_be_loaded(snapshots / commit)) {
      return "is the cache of a hub around the model; point at its snapshot: " +
             (snapshots / commit).string();
    }
    const std::vector<fs::path> found = loadable_in(snapshots);
    if (!found.empty()) {
      return "is the cache of a hub around the model; point at a snapshot: " +
             names_of(found, /*whole=*/true);
    }
    return "is the cache of a hub, and none of its snapshots holds weights (*.safetensors): "
           "download the model again";
  }
  for (const fs::path& entry : entries_of(path)) {
    if (!entry.filename().string().starts_with("models--") || !is_folder(entry)) continue;
    return "is the cache of a hub with models below it, such as " + entry.filename().string() +
           "; point at the snapshot of one: " + (entry / "snapshots").string() + "/<commit>";
  }
  return "";
}

struct Format {
  std::string_view ending;
  const char* what;
  const char* then;
};

constexpr const char* kSaveAgain =
    "convert first: AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(NEW) of "
    "transformers writes .safetensors files";
constexpr Format kFormats[] = {
    {".bin", "pickled PyTorch weights", kSaveAgain},
    {".pth", "pickled PyTorch weights",
     "convert first: transformers' convert_<family>_weights_to_hf.py and save_pretrained(NEW) "
     "write "
     "a folder with .safetensors files"},
    {".pt", "pickled PyTorch weights", kSaveAgain},
    {".ckpt", "a checkpoint of another program",
     "convert it to Hugging Face's form with .safetensors files first"},
    {".distcp", "a distributed checkpoint of PyTorch",
     "convert it to Hugging Face's form with .safetensors files first"},
    {".gguf", "weights for llama.cpp", "take the published folder that they were made from"},
    {".h5", "weights for TensorFlow", kSaveAgain},
    {".msgpack", "weights for Flax", kSaveAgain},
    {".npz", "weights of NumPy", "convert them to Hugging Face's form first"},
    {".onnx", "an ONNX graph", "take the published folder that it was made from"},
};

std::string of_another_format(const std::vector<fs::path>& entries) {
  for (const Format& format : kFormats) {
    std::vector<fs::path> found;
    for (const fs::path& entry : entries) {
      if (entry.extension() == format.ending && entry.filename() != "training_args.bin") {
        found.push_back(entry);
      }
    }
    if (!found.empty()) {
      return std::string("holds ") + format.what + " (" + names_of(found, false) +
             "), which are not read; " + format.then;
    }
  }
  return "";
}

std::string of_files(const fs::path& path, const std::vector<fs::path>& entries) {
  if (is_there(path / "adapter_config.json")) {
    return "holds an adapter (adapter_config.json), not a whole model; merge it into its base "
           "model "
           "first, or point at that";
  }
  std::vector<fs::path> weights, parts;
  for (const fs::path& entry : entries) {
    if (entry.extension() == ".safetensors") weights.push_back(entry);
    if (entry.extension() == ".incomplete" || entry.extension() == ".part") parts.push_back(entry);
  }
  if (!weights.empty()) {
    const bool shards = weights.front().filename().string().find("-of-") != std::string::npos;
    return std::string("holds ") + names_of(weights, false) +
           ", but neither model.safetensors nor " +
           (shards ? "model.safetensors.index.json, which names the shards: download it too"
                   : "model.safetensors.index.json, as Hugging Face names weights");
  }
  if (const std::string other = of_another_format(entries); !other.empty()) return other;
  if (!parts.empty())
    return "holds a download that is not complete (" + names_of(parts, false) + ")";
  return "";
}

}  // namespace

bool is_of_mindformers(const fs::path& folder) {
  for (const fs::path& entry : entries_of(folder)) {
    if (entry.extension() != ".safetensors") continue;
    try {
      for (const auto& [name, tensor] : read_safetensors_header(entry).entries) {
        if (name.find("decoder.layers.") != std::string::npos ||
            name.starts_with("embedding.word_embeddings.")) {
          return true;
        }
      }
    } catch (const CheckpointError&) {
      // Damaged: whose it is does not show.
    }
  }
  return false;
}

std::string what_it_is_instead(const fs::path& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) return error ? "cannot be read: " + error.message() : "no such folder";
  if (!fs::is_directory(status)) return "is a file; point at the folder of the model";
  fs::directory_iterator readable(path, error);
  if (error) return "cannot be read: " + error.message();
  if (holds_published_weights(path)) return "is a Hugging Face folder already";
  if (is_of_mindformers(path)) {
    return "a checkpoint of MindFormers (names such as decoder.layers.0...), whose tensors are "
           "fused "
           "in its own way; convert it to Hugging Face names and give that folder as "
           "checkpoint.load_path";
  }
  if (path.filename().string().starts_with("iteration_")) {
    return std::string(kManifestName) + " is not there: this checkpoint is not complete";
  }
  if (const std::string cache = of_hub_cache(path); !cache.empty()) return cache;
  const std::vector<fs::path> entries = entries_of(path);
  if (entries.empty()) return "is empty: holds no checkpoint and no Hugging Face weights";
  if (const std::string files = of_files(path, entries); !files.empty()) return files;
  if (const std::vector<fs::path> below = loadable_in(path); !below.empty()) {
    return "holds no checkpoint and no Hugging Face weights itself; point at what is below it: " +
           names_of(below, /*whole=*/true);
  }
  return "holds no checkpoint and no Hugging Face weights";
}

}  // namespace tessera
