#include "tessera/parallel/context/head_exchange.h"

#include <ATen/ATen.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

Work exchange(const at::Tensor& received, const at::Tensor& sent, const ProcessGroup& group) {
  const std::vector<int64_t> splits(static_cast<size_t>(group.size()), sent.size(1));
  return group.all_to_all(received.flatten(0, 1), sent.flatten(0, 1), splits, splits);
}

}  // namespace

HeadExchange sequence_to_heads(const at::Tensor& x, int64_t rows, const ProcessGroup& group) {
  HeadExchange e;
  e.rows = rows;
  e.heads = x.size(1);
  e.to_heads = true;
  const int64_t u = group.size();
  if (u == 1) {
    e.received = x.unsqueeze(0);
    return e;
  }
  const at::Tensor wide = e.heads < u ? x.repeat_interleave(u / e.heads, 1) : x;
  TESSERA_CHECK_EQ(wide.size(1) % u, 0, e.heads, " heads over ", u, " ranks");
  e.sent = wide.unflatten(1, {u, -1}).transpose(0, 1).contiguous();  // [u, R L, h, D]
  e.received = at::empty_like(e.sent);
  e.work = exchange(e.received, e.sent, group);
  return e;
}

HeadExchange heads_to_sequence(const at::Tensor& x, int64_t heads, const ProcessGroup& group) {
  HeadExchange e;
  e.rows = x.size(0);
  e.heads = heads;
  const int64_t u = group.size();
  if (u == 1) {
    e.received = x.flatten(0, 1).unsqueeze(0);
    return e;
  }
  e.sent = x.unflatten(1, {u, -1}).transpose(0, 1).flatten(1, 2).contiguous();  // [u, R L, h, D]
  e.received = at::empty_like(e.sent);
  e.work = exchange(e.received, e.sent, group);
  return e;
}

at::Tensor HeadExchange::finish() {
  work.wait();
  sent.reset();
  const int64_t u = received.size(0);
  if (to_heads) {
    return received.unflatten(1, {rows, -1}).transpose(0, 1).flatten(1, 2);  // [R, u L, h, D]
  }
  at::Tensor all = received.transpose(0, 1).flatten(1, 2);  // [R L, u h, D]
  if (heads < u) all = all.unflatten(1, {heads, u / heads}).sum(2);
  return all;
}

}  // namespace tessera
