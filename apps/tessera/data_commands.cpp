#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/tessera/commands.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/data/chat/preprocess_chat.h"
#include "tessera/data/inspect.h"
#include "tessera/data/preprocess.h"
#include "tessera/data/tokenizer.h"
#include "tessera/launcher/engine.h"
#include "tessera/launcher/flags/engine_flags.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct PreprocessFlags {
  PreprocessOptions options;
  std::string tokenizer = "byte";
  std::string format = "auto";
  std::string on_error = "stop";
  std::string chat_template;  // empty: not given
  int64_t seq_length = 0;
  bool packing = false;
  std::string too_long = "cut";
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
       .help = "byte; sentencepiece:MODEL; a tokenizer.json, or a folder with one",
       .target = &flags.tokenizer},
      {.name = "--json-key",
       .value = "KEY",
       .help = "the text's field in a JSON line",
       .target = &options.source.json_key},
      {.name = "--append-eod",
       .help = "ends every document with EOD",
       .target = &options.append_eod},
      {.name = "--add-special",
       .help = "puts around every document what the tokenizer's template says, as BOS",
       .target = &options.add_special},
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
      {.name = "--chat-template",
       .value = "NAME",
       .help = "how a conversation is written (messages, prompt and completion, or instruction "
               "and output in JSON lines): auto, as the tokenizer's folder says, or one of " +
               chat_template_names(),
       .target = &flags.chat_template},
      {.name = "--seq-length",
       .value = "N",
       .help = "of conversations: a row has so many tokens and one more",
       .target = &flags.seq_length,
       .least = 1},
      {.name = "--packing",
       .help = "puts several conversations into a row, first-fit",
       .target = &flags.packing},
      {.name = "--too-long",
       .value = "WAY",
       .help = "what becomes of a conversation longer than a row",
       .target = &flags.too_long,
       .legal = {"cut", "drop"}},
  };
}

int preprocess_texts(const PreprocessFlags& flags) {
  const PreprocessOptions& options = flags.options;
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(tokenizer_of_flag(flags.tokenizer));
  const PreprocessReport report = preprocess(options, *tokenizer, terminal_progress());
  std::string text = fmt::format("{}.bin, .idx: {} documents, {} tokens in {:.1f} s; vocabulary {}",
                                 options.output_prefix, report.documents, report.tokens,
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

int preprocess_conversations(const PreprocessFlags& flags) {
  if (flags.tokenizer == "byte" || flags.tokenizer.starts_with("sentencepiece:")) {
    throw ConfigError("--tokenizer " + flags.tokenizer +
                      ": conversations need a tokenizer.json, or a folder with one");
  }
  if (flags.options.append_eod || flags.options.add_special) {
    throw ConfigError(std::string(flags.options.append_eod ? "--append-eod" : "--add-special") +
                      ": the template of a conversation says what stands around it");
  }
  const std::string name = flags.chat_template == "auto" ? "" : flags.chat_template;
  const ChatEncoder encoder(tokenizer_of_flag(flags.tokenizer), name);
  if (name.empty()) {
    log_info("chat template " + encoder.template_name() + ", as the tokenizer's folder says");
  }
  ChatOptions options;
  options.source = flags.options.source;
  options.output_prefix = flags.options.output_prefix;
  options.seq_length = flags.seq_length;
  options.packing = flags.packing;
  options.too_long = flags.too_long == "drop" ? TooLong::kDrop : TooLong::kCut;
  options.workers = flags.options.workers;
  options.on_error = flags.options.on_error;
  const ChatReport report = preprocess_chat(options, encoder, terminal_progress());
  std::string text = fmt::format(
      "{0}.bin, .idx and {0}_mask.bin, .idx: {1} conversations in {2} rows, {3} tokens, {4} of "
      "them the assistant's, in {5:.1f} s; template {6}, vocabulary {7}",
      options.output_prefix, report.conversations, report.rows, report.tokens, report.counted,
      report.seconds, encoder.template_name(), encoder.tokenizer().vocab_size());
  if (options.seq_length > 0 && options.packing) {
    text += fmt::format("; {:.1f} % of the rows' places are filled",
                        100.0 * static_cast<double>(report.tokens) /
                            static_cast<double>(report.rows * (options.seq_length + 1)));
  }
  print_result(text + left_out_text(report) + "\n");
  return 0;
}

int preprocess_inputs(PreprocessFlags& flags) {
  DocumentSourceOptions& source = flags.options.source;
  if (flags.format == "text") source.format = TextFormat::kBytes;
  if (flags.format == "jsonl") source.format = TextFormat::kJsonLines;
  if (flags.on_error == "skip") flags.options.on_error = OnError::kSkip;
  source.say = log_info;
  const bool chat = !flags.chat_template.empty() ||
                    (source.format != TextFormat::kBytes && holds_conversations(source));
  if (!chat && (flags.packing || flags.seq_length > 0)) {
    throw ConfigError(std::string(flags.packing ? "--packing" : "--seq-length") +
                      ": is for conversations; a text is cut when it is read");
  }
  return chat ? preprocess_conversations(flags) : preprocess_texts(flags);
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
      "  tessera preprocess --input chat.jsonl --tokenizer model --seq-length 4096 --packing \\\n"
      "      --output data/chat\n"
      "  jq -c '.[]' array.json | tessera preprocess --input - --output data/d --on-error skip",
      [flags] { return preprocess_inputs(*flags); }};
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
