// Conversations to ids and masks, files of rows, and what a loader makes of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/data/chat/preprocess_chat.h"
#include "tessera/data/chat/row_packer.h"
#include "tessera/data/gpt_dataset.h"
#include "tessera/data/inspect.h"
#include "tessera/data/loader.h"
#include "tessera/data/mask_file.h"
#include "tests/data/token_files.h"
#include "tests/support/case_path.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using testing::HasSubstr;
using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

const fs::path kCase = test::case_path("sft_mask64");

std::vector<Json> lines_of(const fs::path& path) {
  std::vector<Json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

class Templates : public testing::TestWithParam<std::string> {};

TEST_P(Templates, IdsAndMaskAreThoseOfTransformers) {
  const ChatEncoder encoder((kCase / "tokenizer").string(), GetParam());
  const auto expected = lines_of(kCase / ("expected_" + GetParam() + ".jsonl"));
  const auto records = lines_of(kCase / "data/conversations.jsonl");
  ASSERT_EQ(records.size(), expected.size());
  for (size_t i = 0; i < records.size(); ++i) {
    Conversation conversation;
    ASSERT_FALSE(conversation_of(records[i], "text", conversation));
    const ChatTokens tokens = encoder.encode(conversation);
    ASSERT_EQ(tokens.ids, expected[i]["input_ids"].get<Ids>()) << i;
    ASSERT_EQ(tokens.counts, expected[i]["assistant_mask"].get<std::vector<uint8_t>>()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Templates, testing::Values("chatml", "llama3", "alpaca"),
                         [](const auto& info) { return info.param; });

class Chat : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        (std::string("chat_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
    options_.output_prefix = (folder_ / "out/chat").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& text, const std::string& name = "in.jsonl") {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  ChatReport run(const std::string& text) {
    options_.source.inputs = {file(text)};
    return preprocess_chat(options_, encoder_);
  }
  bool nothing_written() const {
    return !fs::exists(folder_ / "out") || fs::is_empty(folder_ / "out");
  }
  // A row as the loader sees it.
  MicroBatch first_row(int64_t seq_length, bool packed) const {
    DatasetOptions data;
    data.prefixes = {options_.output_prefix};
    data.kind = SampleKind::kRowsInOrder;
    data.seq_length = seq_length;
    LoaderOptions loader;
    loader.columns.packed = packed;
    return Loader(open_dataset(data), loader).load(0).at(0);
  }

  fs::path folder_;
  ChatEncoder encoder_{(kCase / "tokenizer").string(), "chatml"};
  ChatOptions options_;
};

Conversation one_turn(const std::string& question, const std::string& answer) {
  return {{{"user", question, ""}, {"assistant", answer, ""}}, std::nullopt};
}

TEST_F(Chat, TextsThatSpellSpecialTokensStayText) {
  const int32_t end = *encoder_.tokenizer().id_of("<|im_end|>");
  const ChatTokens tokens = encoder_.encode(one_turn("a<|im_end|>b", "c<|im_start|>"));
  EXPECT_EQ(std::ranges::count(tokens.ids, end), 2);
  EXPECT_EQ(encoder_.tokenizer().decode(tokens.ids, false),
            "<|im_start|>user\na<|im_end|>b<|im_end|>\n<|im_start|>assistant\n"
            "c<|im_start|><|im_end|>\n");
  int64_t counted = std::ranges::count(tokens.counts, 1);
  EXPECT_EQ(counted, 1 + 12 + 1);  // c, the twelve letters of <|im_start|>, the end
}

TEST_F(Chat, AnswersThatEqualTheQuestionCountOnlyWhereTheyAreAnswers) {
  const ChatTokens tokens = encoder_.encode(one_turn("same", "same"));
  const auto first = std::ranges::find(tokens.counts, 1) - tokens.counts.begin();
  EXPECT_EQ(std::ranges::count(tokens.counts, 1), 5);
  EXPECT_GT(first, 20);
}

// What is asked is the conversation up to the tokens that would count.
TEST_F(Chat, AQuestionEndsWhereItsAnswerBegins) {
  const ChatTokens whole = encoder_.encode(one_turn("how?", "so"));
  const auto first = std::ranges::find(whole.counts, 1) - whole.counts.begin();
  const Conversation asked{{{"user", "how?", ""}}, std::nullopt};
  EXPECT_EQ(encoder_.encode_question(asked),
            (std::vector<int32_t>(whole.ids.begin(), whole.ids.begin() + first)));
  EXPECT_EQ(encoder_.answer_ends(),
            (std::vector<int32_t>{*encoder_.tokenizer().id_of("<|im_end|>")}));
}

TEST_F(Chat, ATokenDoesNotLieAcrossTheBeginOfAnAnswer) {
  // This tokenizer joins newlines: the template's and those that begin the answer.
  const fs::path made = folder_ / "joins";
  fs::create_directories(made);
  Json json = Json::parse(std::ifstream(kCase / "tokenizer/tokenizer.json"));
  const std::string newline = "\u010a";
  json["model"]["vocab"][newline + newline] = 264;
  json["model"]["merges"].push_back(Json::array({newline, newline}));
  std::ofstream(made / "tokenizer.json") << json.dump();
  const ChatEncoder encoder(made.string(), "chatml");
  const ChatTokens tokens = encoder.encode(one_turn("\nx", "\ny"));
  // The user's newline joins the template's; the assistant's does not.
  EXPECT_EQ(std::ranges::count(tokens.ids, 264), 1);
  EXPECT_EQ(std::ranges::count(tokens.counts, 1), 3);
}

TEST_F(Chat, RecordsOfEveryShape) {
  const auto shape = [&](const std::string& text) {
    Conversation conversation;
    const auto fault = read_conversation(text, "text", conversation);
    EXPECT_FALSE(fault) << fault->why;
    return conversation;
  };
  const Conversation expected = one_turn("q", "a");
  for (
      const char* text :
      {R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})",
       R"({"prompt": "q", "completion": "a"})",
       R"({"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]})",
       R"({"instruction": "q", "output": "a", "input": ""})",
       R"({"instruction": "q", "output": "a"})"}) {
    EXPECT_EQ(shape(text).messages, expected.messages) << text;
  }
  EXPECT_EQ(shape(R"({"text": "t"})").plain, "t");
}

TEST_F(Chat, WhatIsNoRecordIsRefusedWithItsPlace) {
  const std::string good = R"({"prompt": "q", "completion": "a"})";
  for (const auto& [bad, why] : {
           std::pair{R"({"messages": []})", "in.jsonl:2: messages is empty"},
           std::pair{R"({"messages": [{"role": "tool", "content": "x"}]})",
                     "messages[0]: role \"tool\" must be system, user or assistant"},
           std::pair{R"({"messages": [{"role": "user"}]})", "messages[0] has no content"},
           std::pair{R"({"prompt": "q"})", "no field completion"},
           std::pair{R"({"other": 1})", "none of messages, prompt, instruction, text"},
           std::pair{R"({"messages": )", "in.jsonl:2: no JSON"},
       }) {
    EXPECT_THAT(message_of<ConfigError>([&] { run(good + "\n" + bad + "\n"); }), HasSubstr(why));
    EXPECT_TRUE(nothing_written()) << bad;
  }
}

TEST_F(Chat, ConversationsWithoutAnAnswerAreCountedAndNamed) {
  const ChatReport report = run(R"({"messages": [{"role": "user", "content": "q"}]})"
                                "\n"
                                R"({"prompt": "q", "completion": "a"})"
                                "\n");
  EXPECT_EQ(report.conversations, 1);
  EXPECT_EQ(report.without_answer, 1);
  ASSERT_EQ(report.first_without_answer.size(), 1U);
  EXPECT_THAT(report.first_without_answer[0], HasSubstr("in.jsonl:1: no message of the assistant"));
  EXPECT_THAT(
      message_of<ConfigError>([&] { run(R"({"messages": [{"role": "user", "content": "q"}]})"); }),
      HasSubstr("no conversation to learn from"));
}

TEST_F(Chat, TooLongIsCutOrDropped) {
  const std::string lines = R"({"prompt": "q", "completion": "a"})"
                            "\n"
                            R"({"prompt": "q", "completion": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})"
                            "\n";
  options_.seq_length = 30;
  ChatReport report = run(lines);
  EXPECT_EQ(report.cut, 1);
  EXPECT_EQ(report.conversations, 2);
  EXPECT_EQ(IndexedDataset(options_.output_prefix).length(1), 31);
  options_.too_long = TooLong::kDrop;
  report = run(lines);
  EXPECT_EQ(report.dropped, 1);
  EXPECT_EQ(report.conversations, 1);
}

TEST_F(Chat, ThreadsWriteTheSame) {
  options_.source.inputs = {(kCase / "data/conversations.jsonl").string()};
  options_.seq_length = 300;
  options_.packing = true;
  const ChatReport one = preprocess_chat(options_, encoder_);
  options_.output_prefix += "_4";
  options_.workers = 4;
  const ChatReport four = preprocess_chat(options_, encoder_);
  EXPECT_EQ(one.rows, four.rows);
  const IndexedDataset a((folder_ / "out/chat").string()), b(options_.output_prefix);
  EXPECT_EQ(a.lengths_checksum(0, a.sequence_count()), b.lengths_checksum(0, b.sequence_count()));
}

TEST_F(Chat, TheFilesAreThoseOfTheCase) {
  options_.source.inputs = {(kCase / "data/conversations.jsonl").string()};
  preprocess_chat(options_, encoder_);
  for (const char* ending : {"", "_mask"}) {
    const IndexedDataset made(options_.output_prefix + ending);
    const IndexedDataset given((kCase / "data/chatml").string() + ending);
    ASSERT_EQ(made.sequence_count(), given.sequence_count());
    for (int64_t i = 0; i < made.sequence_count(); ++i) {
      std::vector<int64_t> a(static_cast<size_t>(made.length(i)));
      std::vector<int64_t> b(static_cast<size_t>(given.length(i)));
      made.read(i, 0, a);
      given.read(i, 0, b);
      ASSERT_EQ(a, b) << ending << i;
    }
  }
}

TEST_F(Chat, PackedRowsHoldWholeConversationsApart) {
  options_.seq_length = 49;
  options_.packing = true;
  const std::string line = R"({"prompt": "q", "completion": "a"})"
                           "\n";
  const ChatReport report = run(line + line + line + line);
  const auto length = IndexedDataset(options_.output_prefix).length(0);  // 23 tokens
  EXPECT_EQ(report.rows, 2);                                             // two fit into 50 tokens
  const MicroBatch row = first_row(49, true);
  EXPECT_EQ(row.document_ends[0], (std::vector<int64_t>{length, 2 * length, 49}));
  EXPECT_EQ(row.position_ids[static_cast<size_t>(length)], 0);
  EXPECT_EQ(row.position_ids[static_cast<size_t>(length) + 1], 1);
  EXPECT_EQ(row.position_ids[static_cast<size_t>(2 * length)], 0);
  EXPECT_EQ(row.unmasked_tokens, 4);  // "a" and the end, twice
  EXPECT_EQ(row.loss_mask[static_cast<size_t>(length) - 1], 0);
  EXPECT_THAT(message_of<ConfigError>([&] { first_row(49, false); }),
              HasSubstr("create_compressed_eod_mask must be true"));
}

TEST_F(Chat, TheFirstTokenOfAPackedTextIsNoLabelOfTheTextBefore) {
  options_.seq_length = 9;
  options_.packing = true;
  run("{\"text\": \"abcd\"}\n{\"text\": \"efgh\"}\n");  // four letters and the end of text each
  const MicroBatch row = first_row(9, true);
  EXPECT_EQ(row.loss_mask, (std::vector<uint8_t>{1, 1, 1, 1, 0, 1, 1, 1, 1}));
}

TEST_F(Chat, RowsAreTheSamplesOfTheCase) {
  const auto expected = Json::parse(std::ifstream(kCase / "expected_samples.json"));
  DatasetOptions data;
  data.prefixes = {(kCase / "data/chatml").string()};
  data.kind = SampleKind::kRowsInOrder;
  data.seq_length = 128;
  LoaderOptions options;
  options.local_batch_size = 8;
  const Loader loader(open_dataset(data), options);
  for (int64_t step = 0; step < 2; ++step) {
    const MicroBatch batch = loader.load(step).at(0);
    const auto& rows = expected[static_cast<size_t>(step)];
    for (size_t row = 0; row < 8; ++row) {
      for (size_t i = 0; i < 128; ++i) {
        const size_t at = row * 128 + i;
        ASSERT_EQ(batch.loss_mask[at], rows["loss_mask"][row][i].get<int>());
        ASSERT_EQ(batch.position_ids[at], rows["position_ids"][row][i]);
        if (!batch.padded.empty() && batch.padded[at] != 0) continue;  // they are 0 here
        ASSERT_EQ(batch.input_ids[at], rows["input_ids"][row][i]);
        if (batch.loss_mask[at] != 0) {
          ASSERT_EQ(batch.labels[at], rows["labels"][row][i]);
        }
      }
    }
  }
}

TEST_F(Chat, PassesAreShuffledApartAndWhole) {
  options_.source.inputs = {(kCase / "data/conversations.jsonl").string()};
  preprocess_chat(options_, encoder_);
  DatasetOptions data;
  data.prefixes = {options_.output_prefix};
  data.kind = SampleKind::kRows;
  data.seq_length = 128;
  data.samples = 100;
  EXPECT_EQ(count_samples(data), 100);
  const auto source = open_dataset(data);
  ASSERT_EQ(source->size(), 100);
  std::vector<std::vector<int64_t>> rows;
  for (int64_t i = 0; i < 96; ++i) {
    rows.emplace_back(129, -1);
    source->read(i, rows.back());
  }
  EXPECT_FALSE(std::equal(rows.begin(), rows.begin() + 48, rows.begin() + 48));
  std::sort(rows.begin(), rows.begin() + 48);
  std::sort(rows.begin() + 48, rows.end());
  EXPECT_TRUE(std::equal(rows.begin(), rows.begin() + 48, rows.begin() + 48));
}

TEST_F(Chat, AStreamOfTokensReadsTheMaskToo) {
  options_.source.inputs = {(kCase / "data/conversations.jsonl").string()};
  const ChatReport report = preprocess_chat(options_, encoder_);
  DatasetOptions data;
  data.prefixes = {options_.output_prefix};
  data.seq_length = 64;
  const auto source = open_dataset(data);
  const Loader loader(source, LoaderOptions{});
  int64_t counted = 0;
  for (int64_t i = 0; i < source->size(); ++i) counted += loader.load(i).at(0).unmasked_tokens;
  EXPECT_GT(counted, report.counted * 9 / 10);  // all but those of the last, short sample
  EXPECT_LE(counted, report.counted);
}

TEST_F(Chat, AMaskOfAnotherFileIsRefused) {
  run("{\"text\": \"abcd\"}\n{\"text\": \"efgh\"}\n");
  const std::string other = (folder_ / "other").string();
  for (const char* ending : {".bin", ".idx"}) {
    fs::copy_file(kCase / (std::string("data/chatml") + ending), other + ending);
    fs::copy_file(mask_prefix(options_.output_prefix) + ending, mask_prefix(other) + ending);
  }
  DatasetOptions data;
  data.prefixes = {other};
  data.seq_length = 16;
  EXPECT_THAT(message_of<ConfigError>([&] { open_dataset(data); }),
              HasSubstr("other_mask.idx: its sequences are not those of"));
}

TEST_F(Chat, AMaskDoesNotOutliveItsTokenFile) {
  run("{\"text\": \"abcd\"}\n");
  ASSERT_TRUE(is_token_file(mask_prefix(options_.output_prefix)));
  PreprocessOptions plain;
  plain.source.inputs = {file("some text", "t.txt")};
  plain.output_prefix = options_.output_prefix;
  preprocess(plain, *make_byte_tokenizer());
  EXPECT_FALSE(is_token_file(mask_prefix(options_.output_prefix)));
}

TEST(ChatTemplate, IsRecognisedByItsMarksOrAskedFor) {
  EXPECT_EQ(recognise_chat_template("... '<|im_start|>' ... '<|im_end|>'"), "chatml");
  EXPECT_EQ(recognise_chat_template("{{ '[INST] ' }} ... {{ ' [/INST]' }}"), "mistral");
  EXPECT_EQ(recognise_chat_template("{{ something else }}"), "");
  for (const char* name : {"chatml", "llama3", "alpaca"}) {
    std::stringstream text;
    text << std::ifstream(kCase / "tokenizer" / (std::string(name) + ".jinja")).rdbuf();
    EXPECT_EQ(recognise_chat_template(text.str()), name);
  }
  const std::string folder = (kCase / "tokenizer").string();
  EXPECT_THAT(message_of<ConfigError>([&] { ChatEncoder(folder, ""); }),
              HasSubstr("no chat template beside this tokenizer; say which with --chat-template"));
  EXPECT_THAT(message_of<ConfigError>([&] { ChatEncoder(folder, "vicuna"); }),
              HasSubstr("chat template \"vicuna\": must be one of alpaca, chatml"));
  EXPECT_THAT(message_of<ConfigError>([&] { ChatEncoder(folder, "gemma"); }),
              HasSubstr("chat template gemma: the tokenizer has no token <bos>"));
}

TEST(ChatTemplate, EveryTemplateWritesItsTurns) {
  const TemplateTokens tokens{
      "</s>",
      {"<s>", "<bos>", "<start_of_turn>", "<end_of_turn>", "<｜begin▁of▁sentence｜>", "<｜User｜>",
       "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<|im_start|>", "<|im_end|>"}};
  Conversation talk = one_turn(" q ", " a ");
  talk.messages.insert(talk.messages.begin(), {"system", "s", ""});
  const auto written = [&](const char* name, bool counted_only) {
    std::string text;
    for (const Segment& segment : render_chat(name, talk, tokens)) {
      if (segment.counts || !counted_only) text += segment.text;
    }
    return text;
  };
  EXPECT_EQ(written("mistral", false), "<s>[INST] s\n\n q [/INST] a</s>");
  EXPECT_EQ(written("mistral", true), " a</s>");
  EXPECT_EQ(
      written("gemma", false),
      "<bos><start_of_turn>user\ns\n\n q<end_of_turn>\n<start_of_turn>model\na<end_of_turn>\n");
  EXPECT_EQ(written("gemma", true), "a<end_of_turn>");
  EXPECT_EQ(written("deepseek", false),
            "<｜begin▁of▁sentence｜>s<｜User｜> q <｜Assistant｜> a <｜end▁of▁sentence｜>");
  EXPECT_EQ(written("deepseek", true), " a <｜end▁of▁sentence｜>");
  talk.messages.erase(talk.messages.begin());
  EXPECT_THAT(written("qwen", false),
              testing::StartsWith("<|im_start|>system\nYou are Qwen, created by Alibaba Cloud."));
}

}  // namespace
}  // namespace tessera
