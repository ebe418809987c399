#include "tessera/generate/run_generation.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/generate/answer_writer.h"
#include "tessera/generate/text_stream.h"
#include "tessera/storage/checkpoint_choice.h"
#include "tessera/storage/published_weights.h"
#include "tessera/storage/tokenizer_files.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// The folder that holds the model's tokenizer and its other small files.
std::string folder_of_model(const std::string& path) {
  return holds_published_weights(path) ? path : checkpoints_at(path).folders.front().string();
}

std::string folder_of_weights(const CheckpointConfig& checkpoint) {
  const std::string& path = checkpoint.load_path;
  if (holds_adapters(path)) {
    return has_tokenizer(path) ? path : folder_of_model(checkpoint.base_load_path);
  }
  return folder_of_model(path);
}

class Writer {
 public:
  Writer(const GenerationRun& run, const ProcessGroup& world)
      : run_(run),
        world_(world),
        folder_(folder_of_weights(run.config.checkpoint)),
        encoder_(run.tokenizer.empty() ? tokenizer_in(folder_) : run.tokenizer, run.chat),
        options_(run.options),
        stop_texts_(run.stop_texts) {
    std::erase(stop_texts_, "");
    for (const auto& more : {stop_tokens_in(folder_), encoder_.stop_tokens()}) {
      options_.stop_tokens.insert(options_.stop_tokens.end(), more.begin(), more.end());
    }
    check_vocabulary();
  }

  void all(const std::vector<Prompt>& prompts) {
    std::vector<WrittenAnswer> answers(prompts.size());
    std::vector<std::vector<int32_t>> asked;
    std::vector<size_t> index;
    for (size_t i = 0; i < prompts.size(); ++i) {
      answers[i].index = i;
      try {
        answers[i].prompt_ids = checked(encoder_.encode(prompts[i]));
        asked.push_back(answers[i].prompt_ids);
        index.push_back(i);
      } catch (const ConfigError& error) {
        if (prompts.size() == 1) throw;
        answers[i].error = error.what();
        if (is_first()) log_warning(fmt::format("prompt {}: {}", i, error.what()));
      }
    }
    open(asked);
    std::vector<TextStream> streams(asked.size(), TextStream(encoder_.tokenizer(), stop_texts_));
    const bool streams_out = prompts.size() == 1 && run_.output.empty() && !run_.as_lines;
    const auto found = answer(asked, streams, streams_out);
    for (size_t i = 0; i < found.size(); ++i) {
      WrittenAnswer& a = answers[index[i]];
      a.ids = found[i].ids;
      streams[i].update(found[i].ids);
      a.text = streams[i].text();
      a.end = found[i].end == Answer::End::kStop ? "stop" : "length";
    }
    if (!is_first()) return;
    if (!run_.output.empty()) {
      write_answers(run_.output, prompts, answers);
    } else if (!streams_out) {
      for (const WrittenAnswer& a : answers) print_result(answer_line(prompts[a.index], a));
    }
    report();
  }

  // Lines of standard input; with a template they are one conversation. Rank 0 reads, all answer.
  void lines() {
    std::vector<Message> messages;
    open({});
    while (const auto line = next_line()) {
      Prompt prompt{*line, {}, std::nullopt};
      if (run_.chat) {
        messages.push_back({"user", *line, ""});
        prompt.messages = messages;
      }
      std::vector<TextStream> streams(1, TextStream(encoder_.tokenizer(), stop_texts_));
      const auto found = answer({checked(encoder_.encode(prompt))}, streams, true);
      streams[0].update(found[0].ids);
      if (run_.chat) messages.push_back({"assistant", streams[0].text(), ""});
    }
    report();
  }

 private:
  bool is_first() const { return world_.rank() == 0; }

  void check_vocabulary() const {
    const int64_t tokens = encoder_.tokenizer().vocab_size();
    if (tokens <= run_.config.model.vocab_size) return;
    throw ConfigError(
        fmt::format("the tokenizer has {} tokens, the model {}: they do not belong together",
                    tokens, run_.config.model.vocab_size));
  }

  int64_t longest() const {
    return std::max(run_.config.model.max_position_embeddings, run_.config.model.seq_length);
  }

  std::vector<int32_t> checked(std::vector<int32_t> ids) const {
    if (ids.empty()) throw ConfigError("the prompt is empty");
    if (static_cast<int64_t>(ids.size()) >= longest()) {
      throw ConfigError(fmt::format("the prompt has {} tokens, and the model sees {}: shorten it",
                                    ids.size(), longest()));
    }
    return ids;
  }

  // The tables of positions are made for the longest text of this run, as far as it is known.
  void open(const std::vector<std::vector<int32_t>>& prompts) {
    size_t longest_prompt = 0;
    for (const auto& ids : prompts) longest_prompt = std::max(longest_prompt, ids.size());
    options_.max_length = longest();
    Config config = run_.config;
    config.model.seq_length =
        prompts.empty()
            ? longest()
            : std::min(longest(), static_cast<int64_t>(longest_prompt) + options_.max_new_tokens);
    generator_ = std::make_unique<Generator>(std::move(config), world_);
  }

  std::vector<Answer> answer(const std::vector<std::vector<int32_t>>& prompts,
                             std::vector<TextStream>& streams, bool streams_out) {
    const auto start = Clock::now();
    const OnToken on_token = [&](size_t prompt, const Answer& answer) {
      TextStream& stream = streams[prompt];
      if (stop_texts_.empty() && !streams_out) return false;
      const bool ends = stream.update(answer.ids);
      if (streams_out) show(stream.take());
      return ends;
    };
    const auto answers = generate(*generator_, prompts, options_, on_token, asked_);
    if (streams_out && is_first()) show(streams[0].take_rest() + "\n");
    asked_ += prompts.size();
    for (const Answer& a : answers) tokens_ += a.ids.size();
    seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
    return answers;
  }

  static void show(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  std::optional<std::string> next_line() {
    std::string line;
    bool there = false;
    if (is_first()) {
      if (::isatty(STDIN_FILENO)) std::fputs("> ", stderr);
      while ((there = static_cast<bool>(std::getline(std::cin, line))) && line.empty()) {
      }
    }
    at::Tensor length =
        at::scalar_tensor(there ? static_cast<int64_t>(line.size()) : int64_t{-1}, at::kLong);
    world_.broadcast({length}, 0).wait();
    if (length.item<int64_t>() < 0) return std::nullopt;
    at::Tensor bytes = at::zeros({length.item<int64_t>()}, at::kByte);
    std::copy(line.begin(), line.end(), bytes.mutable_data_ptr<uint8_t>());
    if (bytes.numel() > 0) world_.broadcast({bytes}, 0).wait();
    const auto* first = bytes.const_data_ptr<uint8_t>();
    return std::string(first, first + bytes.numel());
  }

  void report() const {
    if (!is_first()) return;
    log_info(
        fmt::format("{} tokens in {:.2f} s: {:.1f} tokens a second; keys and values: {:.1f} "
                    "MiB on this rank at the end",
                    tokens_, seconds_, static_cast<double>(tokens_) / std::max(seconds_, 1e-9),
                    static_cast<double>(generator_->cache_bytes()) / (1 << 20)));
  }

  const GenerationRun& run_;
  const ProcessGroup& world_;
  std::string folder_;
  PromptEncoder encoder_;
  GenerationOptions options_;
  std::vector<std::string> stop_texts_;
  std::unique_ptr<Generator> generator_;
  uint64_t asked_ = 0;
  size_t tokens_ = 0;
  double seconds_ = 0;
};

}  // namespace

void run_generation(const GenerationRun& run, const ProcessGroup& world) {
  Writer writer(run, world);
  if (run.prompts.empty()) {
    writer.lines();
  } else {
    writer.all(run.prompts);
  }
}

}  // namespace tessera
