// Every collective of every transport against sums and copies written out, over worlds and sizes
// that divide by nothing. Over Gloo, so that a wheel that differs from the one built for is
// noticed.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/box.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tests/comm/process_ranks.h"

namespace tessera {
namespace {

// What rank `rank` contributes: different for every rank and element, exact in every dtype.
at::Tensor sample(std::vector<int64_t> shape, int rank, at::ScalarType dtype, int salt = 0) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  const at::Tensor index = at::arange(count, at::kLong);
  return at::remainder(index * (7 + rank) + 13 * rank + salt, 31).sub(9).reshape(shape).to(dtype);
}

using test::Transport;

class Collectives : public testing::TestWithParam<std::tuple<Transport, int, at::ScalarType>> {
 protected:
  void run(const std::function<void(const ProcessGroup&)>& fn) const {
    const int world = std::get<1>(GetParam());
    if (std::get<0>(GetParam()) == Transport::kLocal) {
      run_ranks(world, fn);
    } else {
      test::run_process_ranks(world, std::get<0>(GetParam()), fn);
    }
  }
  at::ScalarType dtype() const { return std::get<2>(GetParam()); }
  // Small (done by the last to come), large (done by all), fewer rows than ranks, empty.
  std::vector<std::vector<int64_t>> shapes() const {
    return {{13, 3}, {1}, {5003, 17}, {2, 1}, {0, 4}, {30011}};
  }
};

TEST_P(Collectives, AllGather) {
  run([&](const ProcessGroup& group) {
    ProcessGroup::Tensors full;
    ProcessGroup::Tensors shards;
    std::vector<at::Tensor> expected;
    for (const auto& shape : shapes()) {
      const at::Tensor whole = sample(shape, 3, dtype());
      const Range rows = part_of(shape[0], group.size(), group.rank());
      expected.push_back(whole);
      shards.push_back(whole.slice(0, rows.begin, rows.end).clone());
      full.push_back(at::full(shape, -1, at::dtype(dtype())));
    }
    group.all_gather(full, shards).wait();
    for (size_t i = 0; i < full.size(); ++i) EXPECT_TRUE(at::equal(full[i], expected[i])) << i;
  });
}

TEST_P(Collectives, AllGatherInPlace) {
  run([&](const ProcessGroup& group) {
    const at::Tensor whole = sample({1031, 70}, 1, dtype());
    const Range rows = part_of(1031, group.size(), group.rank());
    at::Tensor full = at::zeros_like(whole);
    full.slice(0, rows.begin, rows.end).copy_(whole.slice(0, rows.begin, rows.end));
    group.all_gather({full}, {full.slice(0, rows.begin, rows.end)}).wait();
    EXPECT_TRUE(at::equal(full, whole));
  });
}

TEST_P(Collectives, ReduceScatter) {
  for (const bool accumulate : {false, true}) {
    run([&](const ProcessGroup& group) {
      ProcessGroup::Tensors full;
      ProcessGroup::Tensors shards;
      std::vector<at::Tensor> expected;
      for (const auto& shape : shapes()) {
        at::Tensor sum = sample(shape, 0, dtype());
        for (int r = 1; r < group.size(); ++r) sum = sum + sample(shape, r, dtype());
        const Range rows = part_of(shape[0], group.size(), group.rank());
        const at::Tensor own = sum.slice(0, rows.begin, rows.end);
        full.push_back(sample(shape, group.rank(), dtype()));
        shards.push_back(at::full_like(own, 2).contiguous());
        expected.push_back(accumulate ? own + 2 : own);
      }
      group.reduce_scatter(shards, full, accumulate).wait();
      for (size_t i = 0; i < full.size(); ++i) {
        EXPECT_TRUE(at::equal(shards[i], expected[i])) << i << " accumulate " << accumulate;
      }
    });
  }
}

TEST_P(Collectives, AllReduce) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
    run([&](const ProcessGroup& group) {
      ProcessGroup::Tensors tensors;
      std::vector<at::Tensor> expected;
      for (const auto& shape : shapes()) {
        at::Tensor all = sample(shape, 0, dtype());
        for (int r = 1; r < group.size(); ++r) {
          const at::Tensor next = sample(shape, r, dtype());
          all = op == ReduceOp::kSum   ? all + next
                : op == ReduceOp::kMax ? at::maximum(all, next)
                                       : at::minimum(all, next);
        }
        tensors.push_back(sample(shape, group.rank(), dtype()));
        expected.push_back(all);
      }
      group.all_reduce(tensors, op).wait();
      for (size_t i = 0; i < tensors.size(); ++i) {
        EXPECT_TRUE(at::equal(tensors[i], expected[i])) << i;
      }
    });
  }
}

TEST_P(Collectives, AllToAllUneven) {
  run([&](const ProcessGroup& group) {
    const int n = group.size();
    const auto rows_of = [&](int from, int to) { return int64_t{(from * 5 + to * 3) % 4} * 50; };
    // Row k of what `from` sends to `to`.
    const auto message = [&](int from, int to) {
      return sample({rows_of(from, to), 33}, from, dtype(), to);
    };
    std::vector<int64_t> in_splits, out_splits;
    std::vector<at::Tensor> in, out;
    for (int peer = 0; peer < n; ++peer) {
      in_splits.push_back(rows_of(group.rank(), peer));
      out_splits.push_back(rows_of(peer, group.rank()));
      in.push_back(message(group.rank(), peer));
      out.push_back(message(peer, group.rank()));
    }
    const at::Tensor expected = at::cat(out);
    const at::Tensor result = at::full_like(expected, -1);
    group.all_to_all(result, at::cat(in), out_splits, in_splits).wait();
    EXPECT_TRUE(at::equal(result, expected));
  });
}

TEST_P(Collectives, Broadcast) {
  run([&](const ProcessGroup& group) {
    for (int root = 0; root < group.size(); ++root) {
      ProcessGroup::Tensors tensors;
      for (const auto& shape : shapes()) tensors.push_back(sample(shape, group.rank(), dtype()));
      group.broadcast(tensors, root).wait();
      for (size_t i = 0; i < tensors.size(); ++i) {
        EXPECT_TRUE(at::equal(tensors[i], sample(shapes()[i], root, dtype()))) << i;
      }
    }
  });
}

TEST_P(Collectives, SendReceiveRing) {
  run([&](const ProcessGroup& group) {
    const int n = group.size();
    const int next = (group.rank() + 1) % n;
    const int previous = (group.rank() + n - 1) % n;
    for (const int64_t rows : {0, 1, 30000}) {
      // Two tags, received in the other order; buffered, so that all may send first.
      at::Tensor first = sample({rows, 3}, group.rank(), dtype());
      at::Tensor second = sample({rows, 3}, group.rank(), dtype(), 5);
      group.send(first, next, 1).wait();
      group.send(second, next, 2).wait();
      first.fill_(-1);
      second.fill_(-1);
      at::Tensor got_second = at::empty({rows, 3}, at::dtype(dtype()));
      at::Tensor got_first = at::empty({rows, 3}, at::dtype(dtype()));
      group.recv(got_second, previous, 2).wait();
      group.recv(got_first, previous, 1).wait();
      EXPECT_TRUE(at::equal(got_first, sample({rows, 3}, previous, dtype())));
      EXPECT_TRUE(at::equal(got_second, sample({rows, 3}, previous, dtype(), 5)));
    }
  });
}

std::string name_of(const testing::TestParamInfo<Collectives::ParamType>& info) {
  return "World" + std::to_string(std::get<1>(info.param)) + c10::toString(std::get<2>(info.param));
}

INSTANTIATE_TEST_SUITE_P(
    Local, Collectives,
    testing::Combine(testing::Values(Transport::kLocal), testing::Values(1, 2, 3, 4, 8),
                     testing::Values(at::kDouble, at::kFloat, at::kBFloat16, at::kLong)),
    name_of);

INSTANTIATE_TEST_SUITE_P(SharedMemory, Collectives,
                         testing::Combine(testing::Values(Transport::kSharedMemory),
                                          testing::Values(2, 3, 8),
                                          testing::Values(at::kDouble, at::kBFloat16)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Gloo, Collectives,
                         testing::Combine(testing::Values(Transport::kGloo),
                                          testing::Values(2, 3, 8),
                                          testing::Values(at::kDouble, at::kBFloat16)),
                         name_of);

}  // namespace
}  // namespace tessera
