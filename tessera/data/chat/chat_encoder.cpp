#include "tessera/data/chat/chat_encoder.h"

#include <algorithm>
#include <filesystem>

#include "tessera/base/error.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

std::string folder_of(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return path;
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

}  // namespace

ChatEncoder::ChatEncoder(const std::string& tokenizer_path, const std::string& name)
    : tokenizer_(tokenizer_path), name_(name) {
  if (name_.empty()) {
    const std::string jinja = chat_template_of_folder(folder_of(tokenizer_path));
    name_ = recognise_chat_template(jinja);
    if (name_.empty()) {
      throw ConfigError(
          tokenizer_path +
          (jinja.empty() ? ": no chat template beside this tokenizer"
                         : ": its chat template is none that is known here") +
          "; say which with --chat-template (chat_template in a file): " + chat_template_names());
    }
  }
  for (const AddedToken& token : tokenizer_.added_tokens()) {
    tokens_.added.push_back(token.content);
    if (token.special) as_text_.insert(token.id);
  }
  if (tokenizer_.eod()) tokens_.end_of_text = tokenizer_.piece(*tokenizer_.eod()).value_or("");
  // The template's own tokens stay text in a text even where they are not special.
  for (const char* role : {"system", "user", "assistant"}) {
    const Conversation probe{{{role, "", ""}}, std::nullopt};
    for (const Segment& segment : render_chat(name_, probe, tokens_)) {
      if (segment.is_token) as_text_.insert(*tokenizer_.id_of(segment.text));
    }
  }
}

ChatTokens ChatEncoder::encode(const Conversation& conversation) const {
  return encode(render_chat(name_, conversation, tokens_));
}

// An answer without content: what the template writes before it is the question's, what it writes
// from there on is the answer's.
std::vector<int32_t> ChatEncoder::encode_question(const Conversation& conversation) const {
  Conversation with_answer = conversation;
  with_answer.messages.push_back({"assistant", "", ""});
  std::vector<Segment> segments = render_chat(name_, with_answer, tokens_);
  while (!segments.empty() && !segments.back().counts) segments.pop_back();
  while (!segments.empty() && segments.back().counts) segments.pop_back();
  return encode(std::move(segments)).ids;
}

std::vector<int32_t> ChatEncoder::answer_ends() const {
  std::vector<int32_t> ids;
  const Conversation probe{{{"user", "", ""}, {"assistant", "", ""}}, std::nullopt};
  for (const Segment& segment : render_chat(name_, probe, tokens_)) {
    if (segment.is_token && segment.counts) ids.push_back(*tokenizer_.id_of(segment.text));
  }
  return ids;
}

ChatTokens ChatEncoder::encode(std::vector<Segment> segments) const {
  ChatTokens out;
  std::vector<Segment> run;  // texts between two tokens
  for (Segment& segment : segments) {
    if (!segment.is_token) {
      run.push_back(std::move(segment));
      continue;
    }
    add_run(run, out);
    run.clear();
    out.ids.push_back(*tokenizer_.id_of(segment.text));
    out.counts.push_back(segment.counts);
  }
  add_run(run, out);
  return out;
}

void ChatEncoder::add_run(const std::vector<Segment>& run, ChatTokens& out) const {
  const bool first = out.ids.empty();
  if (run.empty() || add_whole(run, first, out)) return;
  // A token would lie on both sides of a bound: the sides are encoded by themselves.
  for (size_t i = 0; i < run.size();) {
    std::string text;
    const size_t begin = i;
    while (i < run.size() && run[i].counts == run[begin].counts) text += run[i++].text;
    tokenizer_.encode_part(text, first && begin == 0, &as_text_, out.ids);
    out.counts.resize(out.ids.size(), run[begin].counts);
  }
}

// Encodes the run as one text, as a rendered template is, if no token lies across a bound between
// what counts and what does not.
bool ChatEncoder::add_whole(const std::vector<Segment>& run, bool first, ChatTokens& out) const {
  std::string text;
  for (const Segment& segment : run) text += segment.text;
  std::vector<int32_t> ids;
  tokenizer_.encode_part(text, first, &as_text_, ids);
  std::vector<uint8_t> counts(ids.size(), run.back().counts);
  size_t end = 0, done = 0;
  for (size_t i = 0; i + 1 < run.size(); ++i) {
    end += run[i].text.size();
    if (run[i].counts == run[i + 1].counts) continue;
    std::vector<int32_t> front;
    tokenizer_.encode_part(std::string_view(text).substr(0, end), first, &as_text_, front);
    if (front.size() > ids.size() || !std::equal(front.begin(), front.end(), ids.begin()) ||
        front.size() < done) {
      return false;
    }
    std::fill(counts.begin() + static_cast<int64_t>(done),
              counts.begin() + static_cast<int64_t>(front.size()), run[i].counts);
    done = front.size();
  }
  out.ids.insert(out.ids.end(), ids.begin(), ids.end());
  out.counts.insert(out.counts.end(), counts.begin(), counts.end());
  return true;
}

}  // namespace tessera
