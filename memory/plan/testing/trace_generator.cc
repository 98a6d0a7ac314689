#include "memory/plan/testing/trace_generator.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace castor {
namespace {

class GptTracer {
 public:
  explicit GptTracer(const GptTraceOptions& o) : o_(o) {
    trace_.micro_batches = o.micro_batches;
    trace_.signature =
        absl::StrCat("gpt-", o.layers, "x", o.channels, "-", o.micro_batches);
    const int64_t c = o.channels;
    AddParameter("wte", o.vocabulary * c);
    AddParameter("wpe", o.sequence * c);
    for (int64_t l = 0; l < o.layers; ++l) {
      const std::string h = absl::StrCat("h.", l, ".");
      closed_ |= o.chunks_of_one_layer;
      AddParameter(h + "ln_1", 2 * c);
      AddParameter(h + "attn.c_attn", 3 * c * (c + 1));
      AddParameter(h + "attn.c_proj", c * (c + 1));
      AddParameter(h + "ln_2", 2 * c);
      AddParameter(h + "mlp.c_fc", 4 * c * (c + 1));
      AddParameter(h + "mlp.c_proj", c * (4 * c + 1));
    }
    closed_ |= o.chunks_of_one_layer;
    AddParameter("ln_f", 2 * c);
    if (!o.tied_embeddings) AddParameter("lm_head", o.vocabulary * c);
  }

  StepTrace Trace() && {
    for (int64_t m = 0; m < o_.micro_batches; ++m) {
      std::vector<Step> steps;
      Forward(steps);
      Backward(steps);
      Emit(steps);
    }
    for (size_t c = 0; c < trace_.chunks.size(); ++c) {
      const int64_t elements = elements_[c];
      OpRecord op{absl::StrCat("update/", c),
                  OpKind::kUpdate,
                  Phase::kOptimizer,
                  {{ChunkId(c), false}}};
      op.duration_ns = Ns(28.0 * elements / o_.device_bytes_per_s);
      op.host_duration_ns = Ns(28.0 * elements / o_.host_bytes_per_s);
      trace_.ops.push_back(op);
    }
    return std::move(trace_);
  }

 private:
  struct Step {
    std::string name;
    Phase phase;
    std::vector<std::string> parameters;
    bool writes;
    double flops;
    double moved_bytes;
    int64_t non_model_bytes;
  };

  static int64_t Ns(double seconds) {
    return static_cast<int64_t>(seconds * 1e9);
  }

  void AddParameter(const std::string& name, int64_t elements) {
    const bool alone = elements > o_.chunk_elements;
    if (elements_.empty() || alone || closed_ ||
        elements_.back() + elements > o_.chunk_elements) {
      elements_.push_back(0);
      trace_.chunks.emplace_back();
    }
    closed_ = alone;
    elements_.back() += elements;
    ChunkInfo& chunk = trace_.chunks.back();
    chunk.payload_bytes = elements_.back() * o_.bytes_per_element;
    chunk.optimizer_bytes = elements_.back() * (o_.micro_batches > 1 ? 16 : 12);
    chunk.sum_bytes = o_.micro_batches > 1 ? elements_.back() * 4 : 0;
    chunk.parameters.push_back(name);
    chunk_of_[name] = static_cast<int64_t>(elements_.size()) - 1;
  }

  // Adds one of the two passes of one block; `held` bytes live beside it.
  void Block(int64_t l, bool backward, int64_t held, std::vector<Step>& steps) {
    const double tokens = static_cast<double>(o_.batch * o_.sequence);
    const double c = static_cast<double>(o_.channels);
    const int64_t row =
        o_.batch * o_.sequence * o_.channels * o_.bytes_per_element;
    const std::string h = absl::StrCat("h.", l, ".");
    struct Piece {
      const char* name;
      const char* parameter;
      double flops;
      int64_t rows;  // live after it, in forward
    };
    const Piece pieces[] = {
        {"ln_1", "ln_1", 0, 2},
        {"attn.c_attn", "attn.c_attn", 2 * tokens * 3 * c * c, 5},
        {"attn.core", nullptr, 4 * tokens * o_.sequence * c, 6},
        {"attn.c_proj", "attn.c_proj", 2 * tokens * c * c, 7},
        {"residual_1", nullptr, 0, 8},
        {"ln_2", "ln_2", 0, 9},
        {"mlp.c_fc", "mlp.c_fc", 2 * tokens * 4 * c * c, 13},
        {"mlp.gelu", nullptr, 0, 17},
        {"mlp.c_proj", "mlp.c_proj", 2 * tokens * 4 * c * c, 18},
        {"residual_2", nullptr, 0, 19},
    };
    std::vector<Step> block;
    for (const Piece& piece : pieces) {
      Step step{h + piece.name + (backward ? "/backward" : "/forward"),
                backward ? Phase::kBackward : Phase::kForward,
                {},
                backward,
                piece.flops * (backward ? 2 : 1),
                static_cast<double>((backward ? 6 : 3) * row),
                held + (piece.rows + (backward ? 4 : 0)) * row};
      if (piece.parameter != nullptr) {
        step.parameters.push_back(h + piece.parameter);
      }
      block.push_back(step);
    }
    if (backward) std::reverse(block.begin(), block.end());
    steps.insert(steps.end(), block.begin(), block.end());
  }

  int64_t Row() const {
    return o_.batch * o_.sequence * o_.channels * o_.bytes_per_element;
  }
  int64_t Logits() const {
    return o_.batch * o_.sequence * o_.vocabulary * o_.bytes_per_element;
  }
  std::string Head() const { return o_.tied_embeddings ? "wte" : "lm_head"; }

  void Forward(std::vector<Step>& steps) {
    const double row = static_cast<double>(Row());
    steps.push_back({"embed/forward",
                     Phase::kForward,
                     {"wte", "wpe"},
                     false,
                     0,
                     3 * row,
                     Row()});
    for (int64_t l = 0; l < o_.layers; ++l) {
      Block(l, false, (l + 1) * Row(), steps);
    }
    const int64_t held = (o_.layers + 1) * Row();
    steps.push_back({"ln_f/forward",
                     Phase::kForward,
                     {"ln_f"},
                     false,
                     0,
                     3 * row,
                     held + Row()});
    steps.push_back({"head/forward",
                     Phase::kForward,
                     {Head()},
                     false,
                     HeadFlops(),
                     0,
                     held + 2 * Row() + Logits()});
    steps.push_back({"loss/forward",
                     Phase::kForward,
                     {},
                     false,
                     0,
                     3.0 * Logits(),
                     held + 2 * Row() + Logits()});
  }

  double HeadFlops() const {
    return 2.0 * o_.batch * o_.sequence * o_.channels * o_.vocabulary;
  }

  void Backward(std::vector<Step>& steps) {
    const double row = static_cast<double>(Row());
    const int64_t held = (o_.layers + 1) * Row();
    steps.push_back({"head/backward",
                     Phase::kBackward,
                     {Head()},
                     true,
                     2 * HeadFlops(),
                     0,
                     held + 2 * Row() + Logits()});
    steps.push_back({"ln_f/backward",
                     Phase::kBackward,
                     {"ln_f"},
                     true,
                     0,
                     6 * row,
                     held + 2 * Row()});
    for (int64_t l = o_.layers - 1; l >= 0; --l) {
      Block(l, false, (l + 2) * Row(), steps);
      Block(l, true, (l + 2) * Row(), steps);
    }
    steps.push_back({"embed/backward",
                     Phase::kBackward,
                     {"wte", "wpe"},
                     true,
                     0,
                     6 * row,
                     2 * Row()});
  }

  void Emit(const std::vector<Step>& steps) {
    std::vector<size_t> last_write(elements_.size(), 0);
    for (size_t i = 0; i < steps.size(); ++i) {
      for (const std::string& name : steps[i].parameters) {
        if (steps[i].writes) last_write[chunk_of_[name]] = i;
      }
    }
    std::vector<std::vector<size_t>> finished(steps.size());
    for (size_t c = 0; c < elements_.size(); ++c) {
      finished[last_write[c]].push_back(c);
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      OpRecord op{step.name, OpKind::kCompute, step.phase, {}};
      for (const std::string& name : step.parameters) {
        const ChunkUse use{ChunkId(chunk_of_[name]), step.writes};
        if (op.chunks.empty() || op.chunks.back().chunk != use.chunk) {
          op.chunks.push_back(use);
        }
      }
      op.non_model_peak_bytes = step.non_model_bytes;
      op.duration_ns = Ns(step.flops / o_.flops_per_s +
                          step.moved_bytes / o_.device_bytes_per_s) +
                       2000;
      trace_.ops.push_back(op);
      for (const size_t c : finished[i]) {
        OpRecord reduce{absl::StrCat("reduce/", c),
                        OpKind::kReduce,
                        Phase::kBackward,
                        {{ChunkId(c), false}}};
        reduce.non_model_peak_bytes = step.non_model_bytes;
        const double bytes = elements_[c] * (o_.micro_batches > 1 ? 12 : 4);
        reduce.duration_ns = Ns(bytes / o_.device_bytes_per_s);
        reduce.host_duration_ns = Ns(bytes / o_.host_bytes_per_s);
        trace_.ops.push_back(reduce);
      }
    }
  }

  const GptTraceOptions& o_;
  StepTrace trace_;
  std::vector<int64_t> elements_;  // by chunk
  bool closed_ = false;            // the last chunk takes no more
  std::map<std::string, int64_t> chunk_of_;
};

// Draws from a generator of its own, so that all else is as without
// activations.
void AddActivations(const ArbitraryTraceOptions& options, uint64_t seed,
                    StepTrace* trace) {
  std::mt19937_64 random(~seed);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  // A chunk is not made right after it was read.
  if (options.operators < 2) return;
  for (int64_t i = 0; i < options.activations; ++i) {
    ChunkInfo chunk;
    chunk.payload_bytes = options.equal_sizes
                              ? options.unit_bytes
                              : below(4 * options.unit_bytes) + 1;
    chunk.block = i;
    chunk.pieces = below(3) + 1;
    const ChunkId id(static_cast<int64_t>(trace->chunks.size()));
    trace->chunks.push_back(chunk);
    std::vector<OpRecord*> forward, backward;  // of a micro batch
    const auto use = [&] {
      if (forward.empty()) return;
      forward[below(options.operators - 1) + 1]->chunks.push_back({id, true});
      backward[below(options.operators)]->chunks.push_back({id, false});
      forward.clear();
      backward.clear();
    };
    for (OpRecord& op : trace->ops) {
      if (op.kind != OpKind::kCompute) continue;
      if (op.phase == Phase::kForward && !backward.empty()) use();
      (op.phase == Phase::kForward ? forward : backward).push_back(&op);
    }
    use();
  }
}

}  // namespace

StepTrace GptTrace(const GptTraceOptions& options) {
  return GptTracer(options).Trace();
}

BusModel BusForShare(const StepTrace& trace, double share) {
  const double compute_ns = static_cast<double>(trace.compute_ns());
  double payloads = 0;
  for (const ChunkInfo& chunk : trace.chunks) {
    payloads += static_cast<double>(chunk.payload_bytes);
  }
  // Payloads move to the device once for forward and once for backward.
  const double bytes = 2 * payloads * static_cast<double>(trace.micro_batches);
  BusModel bus;
  bus.h2d_bytes_per_s = bus.d2h_bytes_per_s =
      bytes * 1e9 / (share * compute_ns);
  return bus;
}

StepTrace ArbitraryTrace(const ArbitraryTraceOptions& options, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  const auto chance = [&](double share) {
    return static_cast<double>(random() >> 11) * 0x1p-53 < share;
  };

  StepTrace trace;
  trace.signature = absl::StrCat("arbitrary-", seed);
  trace.training = options.training;
  trace.micro_batches = options.micro_batches;
  for (int64_t c = 0; c < options.chunks; ++c) {
    ChunkInfo chunk;
    chunk.payload_bytes = options.equal_sizes
                              ? options.unit_bytes
                              : below(4 * options.unit_bytes) + 1;
    if (!chance(options.frozen_share)) {
      chunk.optimizer_bytes = chunk.payload_bytes * 6;
      if (options.micro_batches > 1) chunk.sum_bytes = chunk.payload_bytes * 2;
    }
    trace.chunks.push_back(chunk);
  }
  const auto trainable = [&](int64_t c) {
    return trace.chunks[c].optimizer_bytes > 0;
  };

  const auto compute = [&](Phase phase, int64_t i) {
    OpRecord op{absl::StrCat(phase == Phase::kForward ? "f" : "b", i),
                OpKind::kCompute,
                phase,
                {}};
    const int64_t most = std::min<int64_t>(options.chunks, 1 + below(2));
    std::vector<bool> used(options.chunks, false);
    for (int64_t k = 0; k < most; ++k) {
      if (!chance(0.15)) used[below(options.chunks)] = true;
    }
    for (int64_t c = 0; c < options.chunks; ++c) {
      if (!used[c]) continue;
      const bool writes =
          phase == Phase::kBackward && trainable(c) && chance(0.6);
      op.chunks.push_back({ChunkId(c), writes});
    }
    op.non_model_peak_bytes = options.equal_sizes
                                  ? below(3) * options.unit_bytes
                                  : below(6 * options.unit_bytes);
    op.duration_ns = chance(0.1) ? 0 : below(4000);
    return op;
  };
  const auto optimizer = [&](OpKind kind, int64_t c) {
    OpRecord op{absl::StrCat(kind == OpKind::kReduce ? "reduce" : "update", c),
                kind,
                kind == OpKind::kReduce ? Phase::kBackward : Phase::kOptimizer,
                {{ChunkId(c), false}}};
    op.non_model_peak_bytes = options.equal_sizes
                                  ? below(2) * options.unit_bytes
                                  : below(3 * options.unit_bytes);
    op.duration_ns = below(500);
    op.host_duration_ns = below(5000);
    return op;
  };

  for (int64_t m = 0; m < options.micro_batches; ++m) {
    for (int64_t i = 0; i < options.operators; ++i) {
      trace.ops.push_back(compute(Phase::kForward, i));
    }
    if (!options.training) continue;
    std::vector<OpRecord> backward;
    std::vector<int64_t> last_use(options.chunks, -1);
    for (int64_t i = 0; i < options.operators; ++i) {
      backward.push_back(compute(Phase::kBackward, i));
      for (const ChunkUse& use : backward.back().chunks) {
        last_use[use.chunk.value] = i;
      }
    }
    // After the last use, or a while later.
    std::vector<std::vector<int64_t>> reduces(options.operators);
    for (int64_t c = 0; c < options.chunks; ++c) {
      if (!trainable(c) || options.operators == 0) continue;
      int64_t at = std::max<int64_t>(0, last_use[c]);
      if (chance(0.3)) at += below(options.operators - at);
      reduces[at].push_back(c);
    }
    for (int64_t i = 0; i < options.operators; ++i) {
      trace.ops.push_back(backward[i]);
      for (const int64_t c : reduces[i]) {
        trace.ops.push_back(optimizer(OpKind::kReduce, c));
      }
    }
  }
  if (options.training) {
    std::vector<int64_t> order;
    for (int64_t c = 0; c < options.chunks; ++c) {
      if (trainable(c)) order.push_back(c);
    }
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[below(static_cast<int64_t>(i))]);
    }
    for (const int64_t c : order) {
      trace.ops.push_back(optimizer(OpKind::kUpdate, c));
    }
  }
  if (options.training) AddActivations(options, seed, &trace);
  return trace;
}

}  // namespace castor
