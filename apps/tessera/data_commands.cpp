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
#include "tessera/launcher/program_path.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

void add_preprocess(CLI::App& app, Command& command) {
  struct Flags {
    PreprocessOptions options;
    std::string tokenizer = "byte";
    std::string format = "auto";
    std::string on_error = "stop";
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* preprocess_command =
      app.add_subcommand("preprocess", "makes a token file (.bin and .idx) from text");
  PreprocessOptions& options = flags->options;
  preprocess_command
      ->add_option(
          "--input", options.source.inputs,
          "files and pipes, - for standard input: JSON lines (a document a line) or text (a "
          "document a file), plain or in gzip, zstd, xz, lzma, bzip2; the content decides, "
          "not the name")
      ->required();
  preprocess_command->add_option("--output", options.output_prefix, "path without .bin and .idx")
      ->required();
  preprocess_command
      ->add_option("--tokenizer", flags->tokenizer,
                   "byte; sentencepiece:MODEL; a tokenizer.json, or a folder with one")
      ->capture_default_str();
  preprocess_command
      ->add_option("--json-key", options.source.json_key, "the text's field in a JSON line")
      ->capture_default_str();
  preprocess_command->add_flag("--append-eod", options.append_eod, "ends every document with EOD");
  preprocess_command->add_flag("--add-special", options.add_special,
                               "puts around every document what the tokenizer's template says, "
                               "as BOS");
  preprocess_command->add_option("--workers", options.workers, "threads; the output is the same")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  preprocess_command
      ->add_option("--format", flags->format,
                   "what the inputs are: auto recognises each; text takes the bytes of each as one "
                   "document; jsonl is JSON lines")
      ->check(CLI::IsMember({"auto", "text", "jsonl"}))
      ->capture_default_str();
  preprocess_command
      ->add_option("--on-error", flags->on_error,
                   "at a document that cannot be read: stop, or skip it and name all of them in "
                   "OUTPUT.skipped.jsonl (an archive that is damaged stops always)")
      ->check(CLI::IsMember({"stop", "skip"}))
      ->capture_default_str();
  preprocess_command
      ->add_option("--max-document-bytes", options.source.max_document_bytes,
                   "the longest line of JSON lines, and the longest text; bounds the memory")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  preprocess_command->footer(
      "Examples:\n"
      "  tessera preprocess --input a.txt b.txt --output data/text --tokenizer byte --append-eod\n"
      "  tessera preprocess --input c.jsonl.zst --json-key content --output data/c \\\n"
      "      --tokenizer sentencepiece:tokenizer.model --append-eod --workers 4\n"
      "  jq -c '.[]' array.json | tessera preprocess --input - --output data/d --on-error skip");
  preprocess_command->callback([flags, &command] {
    command = [flags] {
      const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(flags->tokenizer);
      PreprocessOptions& options = flags->options;
      if (flags->format == "text") options.source.format = TextFormat::kBytes;
      if (flags->format == "jsonl") options.source.format = TextFormat::kJsonLines;
      if (flags->on_error == "skip") options.on_error = OnError::kSkip;
      options.source.say = log_info;
      const PreprocessReport report = preprocess(options, *tokenizer, terminal_progress());
      std::string text =
          fmt::format("{}.bin, .idx: {} documents, {} tokens in {:.1f} s; vocabulary {}",
                      flags->options.output_prefix, report.documents, report.tokens, report.seconds,
                      tokenizer->vocab_size());
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
    };
  });
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

void add_inspect(CLI::App& app, Command& command) {
  struct Flags {
    std::string path;
    bool verify = false;
    int64_t eod = -1;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* inspect = app.add_subcommand(
      "inspect", "says what a token file, a checkpoint, a model or its file holds, and checks it");
  inspect
      ->add_option("path", flags->path,
                   "a .bin/.idx pair, with or without the ending; a checkpoint or the folder of "
                   "several; a Hugging Face folder; a .safetensors file")
      ->required();
  inspect->add_flag("--verify", flags->verify, "reads every token, or every byte of every file");
  inspect->add_option("--eod", flags->eod, "counts this id (with --verify)")
      ->check(CLI::NonNegativeNumber);
  inspect->footer(
      "Examples:\n  tessera inspect data/text\n  tessera inspect data/text --verify\n"
      "  tessera inspect output/checkpoint --verify\n  tessera inspect model/model.safetensors");
  inspect->callback([flags, &command] {
    command = [flags] {
      if (is_folder_or_weights(flags->path)) {
        if (flags->eod >= 0) throw ConfigError("--eod: only a token file has tokens to count");
        std::vector<std::string> engine = {sibling_program("tessera-engine"), "inspect",
                                           flags->path};
        if (flags->verify) engine.emplace_back("--verify");
        become_engine(engine, WorldOfProcess{});
      }
      const std::string prefix = token_prefix_or_throw(flags->path);
      std::optional<int64_t> eod;
      if (flags->eod >= 0) {
        if (!flags->verify) throw ConfigError("--eod: counts what --verify reads; give both");
        eod = flags->eod;
      }
      print_result(to_text(inspect_token_file(prefix, flags->verify, eod)));
      return 0;
    };
  });
}

}  // namespace

void add_data_commands(CLI::App& app, Command& command) {
  add_preprocess(app, command);
  add_inspect(app, command);
}

}  // namespace tessera
