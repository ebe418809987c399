#include "tessera/comm/gather_text.h"

#include <gtest/gtest.h>

#include "tests/comm/process_ranks.h"

namespace tessera::test {
namespace {

// Of different lengths, one empty, one with a zero byte.
std::string text_of(int rank) {
  if (rank == 1) return "";
  return "rank " + std::to_string(rank) + std::string(static_cast<size_t>(100 * rank), 'x') +
         std::string(rank == 2 ? 1 : 0, '\0');
}

class GatherText : public testing::TestWithParam<Transport> {};

TEST_P(GatherText, ToOneRank) {
  for (const int n : {1, 4}) {
    run_process_ranks(n, GetParam(), [n](const ProcessGroup& world) {
      for (int root = 0; root < n; ++root) {
        const auto texts = gather_texts_to(root, world, text_of(world.rank()));
        std::vector<std::string> expected;
        for (int rank = 0; rank < n && world.rank() == root; ++rank) {
          expected.push_back(text_of(rank));
        }
        EXPECT_EQ(texts, expected) << root;
      }
    });
  }
}

// Nobody sends more than its length and its text.
TEST_P(GatherText, ToOneRankSendsLittle) {
  run_process_ranks(4, GetParam(), [](const ProcessGroup& world) {
    const std::string text = text_of(world.rank());
    gather_texts_to(3, world, text);
    EXPECT_EQ(world.stats().total_bytes(),
              world.rank() == 3 ? 0 : 8 + static_cast<int64_t>(text.size()));
  });
}

TEST_P(GatherText, FromOneRank) {
  for (const int n : {1, 4}) {
    run_process_ranks(n, GetParam(), [n](const ProcessGroup& world) {
      for (int root = 0; root < n; ++root) {
        EXPECT_EQ(broadcast_text(root, world, text_of(world.rank())), text_of(root));
      }
    });
  }
}

TEST_P(GatherText, ToAll) {
  run_process_ranks(2, GetParam(), [](const ProcessGroup& world) {
    EXPECT_EQ(gather_texts(world, text_of(world.rank())),
              (std::vector<std::string>{text_of(0), text_of(1)}));
    EXPECT_EQ(gather_texts(world, ""), (std::vector<std::string>(2)));
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, GatherText,
                         testing::Values(Transport::kLocal, Transport::kSharedMemory,
                                         Transport::kGloo),
                         [](const testing::TestParamInfo<Transport>& info) {
                           return transport_name(info.param);
                         });

}  // namespace
}  // namespace tessera::test
