#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/tessera/commands.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/data/inspect.h"
#include "tessera/data/preprocess.h"
#include "tessera/data/tokenizer.h"
#include "tessera/launcher/engine.h"
#include "tessera/launcher/engine_flags.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct PreprocessFlags {
  PreprocessOptions options;
  std::string tokenizer = "byte";
  std::string format = "auto";
  std::string on_error = "stop";
};

std::vector<Flag> flags_of(PreprocessFlags& flags) {
  PreprocessOptions& options = flags.options;
  return {
      {.name = "--input",
       .value = "FILE",
       .help = "files and pipes, - for standard input: JSON lines (a document a line) or text (a "
               "document a file), plain or in gzip, zstd, xz, lzma, bzip2; the content decides, "
               "not the name",
       .target = &options.source.inputs,
       .required = true,
       .path = true,
       .many = true},
      {.name = "--output",
       .value = "PREFIX",
       .help = "path without .bin and .idx",
       .target = &options.output_prefix,
       .required = true,
       .path = true},
      {.name = "--tokenizer",
       .value = "NAME",
       .help = "byte, or sentencepiece:MODEL",
       .target = &flags.tokenizer},
      {.name = "--json-key",
       .value = "KEY",
       .help = "the text's field in a JSON line",
       .target = &options.source.json_key},
      {.name = "--append-eod",
       .help = "ends every document with EOD",
       .target = &options.append_eod},
      {.name = "--workers",
       .value = "N",
       .help = "threads; the output is the same",
       .target = &options.workers,
       .least = 1,
       .most = 1024},
      {.name = "--format",
       .value = "FORMAT",
       .help = "what the inputs are: auto recognises each; text takes the bytes of each as one "
               "document; jsonl is JSON lines",
       .target = &flags.format,
       .legal = {"auto", "text", "jsonl"}},
      {.name = "--on-error",
       .value = "WAY",
       .help = "at a document that cannot be read: stop, or skip it and name all of them in "
               "OUTPUT.skipped.jsonl (an archive that is damaged stops always)",
       .target = &flags.on_error,
       .legal = {"stop", "skip"}},
      {.name = "--max-document-bytes",
       .value = "N",
       .help = "the longest line of JSON lines, and the longest text; bounds the memory",
       .target = &options.source.max_document_bytes,
       .least = 1},
  };
}

// Of sentencepiece:MODEL the model is a path.
std::string tokenizer_with_path(const std::string& name) {
  const size_t colon = name.find(':');
  if (colon == std::string::npos) return name;
  return name.substr(0, colon + 1) + path_of_flag("--tokenizer", name.substr(colon + 1));
}

int preprocess_texts(PreprocessFlags& flags) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(tokenizer_with_path(flags.tokenizer));
  PreprocessOptions& options = flags.options;
  if (flags.format == "text") options.source.format = TextFormat::kBytes;
  if (flags.format == "jsonl") options.source.format = TextFormat::kJsonLines;
  if (flags.on_error == "skip") options.on_error = OnError::kSkip;
  options.source.say = log_info;
  const PreprocessReport report = preprocess(options, *tokenizer, terminal_progress());
  std::string text = fmt::format("{}.bin, .idx: {} documents, {} tokens in {:.1f} s; vocabulary {}",
                                 flags.options.output_prefix, report.documents, report.tokens,
                                 report.seconds, tokenizer->vocab_size());
  if (tokenizer->eod()) text += fmt::format(", eod {}", *tokenizer->eod());
  if (tokenizer->pad()) text += fmt::format(", pad {}", *tokenizer->pad());
  if (report.empty_documents > 0) {
    text += fmt::format("; {} documents without text left out", report.empty_documents);
  }
  if (report.skipped > 0) {
    text += fmt::format("\n{} documents skipped, all named in {}; the first:", report.skipped,
                        skipped_path(options.output_prefix));
    for (const std::string& place : report.first_skipped) text += "\n  " + place;
  }
  print_result(text + "\n");
  return 0;
}

bool is_folder_or_weights(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error) ||
         (path.extension() == ".safetensors" && fs::exists(path, error));
}

// `path` without .bin or .idx. Throws ConfigError that says what is there instead.
std::string token_prefix_or_throw(const std::string& path) {
  std::string prefix = path;
  for (const std::string ending : {".bin", ".idx"}) {
    if (prefix.ends_with(ending)) prefix.resize(prefix.size() - ending.size());
  }
  if (is_token_file(prefix)) return prefix;
  std::error_code error;
  if (fs::exists(prefix + ".bin", error) || fs::exists(prefix + ".idx", error)) {
    throw ConfigError(path + ": no token file: " + prefix + ".bin and " + prefix +
                      ".idx are not both there");
  }
  if (fs::exists(path, error)) {
    throw ConfigError(path +
                      ": neither a token file (.bin, .idx), nor a .safetensors file, nor "
                      "the folder of a checkpoint or model");
  }
  throw ConfigError(path + ": no such file or folder, and no token file " + prefix + ".bin, .idx");
}

int inspect(const InspectFlags& flags) {
  if (is_folder_or_weights(flags.path)) {
    if (flags.eod) throw ConfigError("--eod: only a token file has tokens to count");
    InspectFlags own = flags;
    become_engine(engine_command("inspect", flags_of(own)), WorldOfProcess{});
  }
  const std::string prefix = token_prefix_or_throw(flags.path);
  if (flags.eod && !flags.verify) {
    throw ConfigError("--eod: counts what --verify reads; give both");
  }
  print_result(to_text(inspect_token_file(prefix, flags.verify, flags.eod)));
  return 0;
}

}  // namespace

Command preprocess_command() {
  const auto flags = std::make_shared<PreprocessFlags>();
  return {
      "preprocess", "makes a token file (.bin and .idx) from text", flags_of(*flags),
      "Examples:\n"
      "  tessera preprocess --input a.txt b.txt --output data/text --tokenizer byte --append-eod\n"
      "  tessera preprocess --input c.jsonl.zst --json-key content --output data/c \\\n"
      "      --tokenizer sentencepiece:tokenizer.model --append-eod --workers 4\n"
      "  jq -c '.[]' array.json | tessera preprocess --input - --output data/d --on-error skip",
      [flags] { return preprocess_texts(*flags); }};
}

Command inspect_command() {
  const auto flags = std::make_shared<InspectFlags>();
  return {"inspect",
          "says what a token file, a checkpoint, a model or its file holds, and checks it",
          flags_of(*flags),
          "Examples:\n  tessera inspect data/text\n  tessera inspect data/text --verify\n"
          "  tessera inspect output/checkpoint --verify\n  tessera inspect model/model.safetensors",
          [flags] { return inspect(*flags); }};
}

}  // namespace tessera
