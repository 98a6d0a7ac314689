#include "run/model/model_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/philox.h"
#include "base/sha256.h"
#include "base/state_format.h"
#include "base/status_macros.h"
#include "base/touch_pages.h"
#include "base/units.h"
#include "device/comm/agreement.h"
#include "kernels/cast/cast.h"
#include "kernels/init/init.h"
#include "kernels/run.h"

namespace castor {
namespace {

// The most elements that are handled at a time: 1 MiB of floats.
constexpr int64_t kPiece = 1 << 18;

// The elements of the longest piece that such chunks have.
int64_t LongestPiece(const ChunkLayout& layout) {
  int64_t most = 0;
  for (int64_t i = 0; i < layout.num_chunks(); ++i) {
    most = std::max(most, layout.shard_elements(ChunkId(i)));
  }
  return std::min(most, kPiece);
}

}  // namespace

absl::Status PutValues(const ExecContext& context, const ChunkLayout& layout,
                       absl::Span<const float> values, int64_t at,
                       std::byte* home, const StateView& states) {
  const int64_t size = static_cast<int64_t>(values.size());
  DType from = DType::kFloat32;
  const void* rounded = values.data();
  if (states.master != nullptr) {
    from = layout.states.master_dtype();
    rounded = states.master + at * SizeOf(from);
    EncodeStates(layout.states.master, values.data(), states.master,
                 states.elements, at, at + size);
  }
  return kernels::Run(context,
                      kernels::CastArgs{.size = size,
                                        .from = from,
                                        .x = rounded,
                                        .to = layout.dtype,
                                        .y = home + at * SizeOf(layout.dtype)});
}

namespace {

// One trainable or frozen parameter's elements within the own shard of a
// chunk's home and states.
absl::Status FillParameter(const Parameter& parameter,
                           const ChunkLayout& layout, ParameterSource& source,
                           std::byte* home, const StateView& states,
                           const ExecContext& context,
                           std::vector<float>& piece) {
  const ParameterRange own = ShardOf(parameter, layout, layout.rank);
  for (int64_t begin = own.begin; begin < own.end; begin += kPiece) {
    const int64_t end = std::min(begin + kPiece, own.end);
    const int64_t at =
        parameter.offset + begin - layout.shard_begin(parameter.chunk);
    CASTOR_RETURN_IF_ERROR(
        source.Read(parameter, StatePart::kMaster, begin, end, piece.data()));
    CASTOR_RETURN_IF_ERROR(PutValues(
        context, layout, absl::MakeConstSpan(piece).first(end - begin), at,
        home, states));
    if (states.master == nullptr) continue;
    for (int i = 0; i + 1 < layout.states.num_parts(); ++i) {
      const StatePart part = StatePart::Slot(i);
      const StateFormat format = layout.states.format(part);
      if (format == StateFormat::kFloat32) {
        CASTOR_RETURN_IF_ERROR(
            source.Read(parameter, part, begin, end,
                        reinterpret_cast<float*>(states.slots[i]) + at));
        continue;
      }
      CASTOR_RETURN_IF_ERROR(
          source.Read(parameter, part, begin, end, piece.data()));
      EncodeStates(format, piece.data(), states.slots[i], states.elements, at,
                   at + end - begin);
    }
  }
  return absl::OkStatus();
}

// Padding takes part in nothing but the copies; it is 0. Clears elements
// [begin, end) of a chunk, as far as they lie in the own shard.
void ClearPadding(const ChunkLayout& layout, ChunkId id, int64_t begin,
                  int64_t end, std::byte* home, const StateView& states) {
  const int64_t shard_begin = layout.shard_begin(id);
  begin = std::max(begin - shard_begin, int64_t{0});
  end = std::min(end - shard_begin, layout.shard_elements(id));
  if (begin >= end) return;
  const int64_t size = SizeOf(layout.dtype);
  std::memset(home + begin * size, 0, (end - begin) * size);
  if (states.master == nullptr) return;
  for (int i = 0; i < layout.states.num_parts(); ++i) {
    const StatePart part(i);
    ClearStates(layout.states.format(part), states.array(part), states.elements,
                begin, end);
  }
}

// Calls `take` with pieces of the own shard of a parameter's values or states.
class ShardVisitor {
 public:
  using Take =
      absl::FunctionRef<absl::Status(int64_t begin, absl::Span<const float>)>;

  explicit ShardVisitor(ChunkStore* store)
      : store_(*store),
        values_(LongestPiece(store->layout())),
        own_type_(values_.size() * sizeof(float)) {}

  absl::Status Visit(const Parameter& parameter, StatePart part, Take take) {
    const ChunkLayout& layout = store_.layout();
    const ParameterRange own = OwnedBy(layout.rank, parameter, part, layout);
    for (int64_t begin = own.begin; begin < own.end; begin += kPiece) {
      const int64_t end = std::min(begin + kPiece, own.end);
      CASTOR_ASSIGN_OR_RETURN(const float* const values,
                              Read(parameter, part, begin, end));
      CASTOR_RETURN_IF_ERROR(
          take(begin, absl::MakeConstSpan(values, end - begin)));
    }
    return absl::OkStatus();
  }

 private:
  // Elements [begin, end) as fp32: where they are, if that is host memory, else
  // in values_.
  absl::StatusOr<const float*> Read(const Parameter& parameter, StatePart part,
                                    int64_t begin, int64_t end) {
    if (part.is_margins()) return store_.margins(parameter.id).data() + begin;
    const int64_t at = parameter.offset + begin;
    const int64_t size = end - begin;
    if (parameter.trainable) {
      const StateFormat format = store_.layout().states.format(part);
      if (format == StateFormat::kFloat32) {
        CASTOR_ASSIGN_OR_RETURN(
            const std::byte* const on_host,
            store_.StateOnHost(parameter.chunk, part, at, at + size));
        if (on_host != nullptr) return reinterpret_cast<const float*>(on_host);
        CASTOR_RETURN_IF_ERROR(store_.ReadState(parameter.chunk, part, at,
                                                at + size, values_.data()));
        return values_.data();
      }
      CASTOR_RETURN_IF_ERROR(store_.ReadState(parameter.chunk, part, at,
                                              at + size, own_type_.data()));
      DecodeStates(format, own_type_.data(), RoundUp(size, kStateTile), 0, size,
                   values_.data());
      return values_.data();
    }
    CASTOR_RETURN_IF_ERROR(
        store_.ReadHome(parameter.chunk, at, at + size, own_type_.data()));
    CASTOR_RETURN_IF_ERROR(
        kernels::Run({&pool_}, kernels::CastArgs{.size = size,
                                                 .from = store_.layout().dtype,
                                                 .x = own_type_.data(),
                                                 .to = DType::kFloat32,
                                                 .y = values_.data()}));
    return values_.data();
  }

  ChunkStore& store_;
  ThreadPool pool_{1};
  std::vector<float> values_;
  std::vector<std::byte> own_type_;  // before it is widened
};

}  // namespace

ParameterRange ShardOf(const Parameter& parameter, const ChunkLayout& layout,
                       int rank) {
  const int64_t shard_elements = layout.shard_elements(parameter.chunk);
  const int64_t begin = rank * shard_elements - parameter.offset;
  return {std::max<int64_t>(0, begin),
          std::min(parameter.elements(), begin + shard_elements)};
}

ParameterRange OwnedBy(int rank, const Parameter& parameter, StatePart part,
                       const ChunkLayout& layout) {
  if (!part.is_margins()) return ShardOf(parameter, layout, rank);
  return {0, rank == 0 ? ElementsOf(parameter, part, layout) : 0};
}

int64_t ElementsOf(const Parameter& parameter, StatePart part,
                   const ChunkLayout& layout) {
  return part.is_margins() ? layout.num_margins(parameter.id)
                           : parameter.elements();
}

std::vector<StatePart> PartsOf(const Parameter& parameter,
                               const StateLayout& states) {
  if (!parameter.trainable) return {StatePart::kMaster};
  std::vector<StatePart> parts;
  for (int i = 0; i < states.num_parts(); ++i) parts.push_back(StatePart(i));
  if (states.margins) parts.push_back(StatePart::kMargins);
  return parts;
}

std::vector<const Parameter*> ByName(const Parameters& parameters) {
  std::vector<const Parameter*> sorted;
  for (const auto& parameter : parameters) sorted.push_back(parameter.get());
  std::sort(
      sorted.begin(), sorted.end(),
      [](const Parameter* a, const Parameter* b) { return a->name < b->name; });
  return sorted;
}

absl::Status InitialValues::Read(const Parameter& parameter, StatePart part,
                                 int64_t begin, int64_t end, float* out) {
  CASTOR_RETURN_IF_ERROR(pool_.status());
  const ExecContext context{&pool_};
  if (part != StatePart::kMaster) {
    return kernels::FillConstant(context, end - begin, 0, out);
  }
  if (parameter.init.stddev == 0) {
    return kernels::FillConstant(context, end - begin, parameter.init.mean,
                                 out);
  }
  const RandomKey key = {
      seed_, HashName(parameter.name.data(), parameter.name.size())};
  return kernels::FillNormal(context, key, begin, end, parameter.init.mean,
                             parameter.init.stddev, out);
}

absl::Status FillChunks(const Parameters& parameters, ChunkStore& store,
                        ParameterSource& source) {
  ThreadPool pool(AvailableProcessors());
  CASTOR_RETURN_IF_ERROR(pool.status());
  const ExecContext context{&pool};
  const ChunkLayout& layout = store.layout();
  std::vector<float> piece(LongestPiece(layout));
  for (int64_t i = 0; i < layout.num_chunks(); ++i) {
    const ChunkId id(i);
    CASTOR_RETURN_IF_ERROR(store.Fill(
        id, [&](std::byte* home, const StateView& states) -> absl::Status {
          TouchPages(pool, home, layout.shard_bytes(id));
          if (states.master != nullptr) {
            TouchPages(pool, states.master,
                       layout.states.Bytes(states.elements, false));
          }
          // Parameters stand in the order of their offsets. The elements
          // between them are padding.
          int64_t end = 0;
          for (ParamId each : layout.chunk(id).parameters) {
            const Parameter& parameter = *parameters[each.value];
            ClearPadding(layout, id, end, parameter.offset, home, states);
            end = parameter.offset + parameter.elements();
            CASTOR_RETURN_IF_ERROR(FillParameter(parameter, layout, source,
                                                 home, states, context, piece));
          }
          ClearPadding(layout, id, end, layout.chunk(id).elements, home,
                       states);
          return absl::OkStatus();
        }));
  }
  for (const auto& parameter : parameters) {
    const absl::Span<float> margins = store.margins(parameter->id);
    if (margins.empty()) continue;
    CASTOR_RETURN_IF_ERROR(source.Read(*parameter, StatePart::kMargins, 0,
                                       static_cast<int64_t>(margins.size()),
                                       margins.data()));
  }
  return absl::OkStatus();
}

absl::Status VisitModelState(
    const Parameters& parameters, ChunkStore& store, bool with_states,
    absl::FunctionRef<absl::Status(const Parameter&, StatePart, int64_t,
                                   absl::Span<const float>)>
        take) {
  ShardVisitor visitor(&store);
  for (const Parameter* parameter : ByName(parameters)) {
    for (const StatePart part : PartsOf(*parameter, store.layout().states)) {
      if (!part.is_master() && !with_states) continue;
      CASTOR_RETURN_IF_ERROR(visitor.Visit(
          *parameter, part, [&](int64_t begin, absl::Span<const float> values) {
            return take(*parameter, part, begin, values);
          }));
    }
  }
  return absl::OkStatus();
}

std::string DescribeValue(const Parameter& parameter, StatePart part,
                          float value, const ChunkLayout& layout) {
  return absl::StrCat(parameter.name, " (",
                      part.is_master() ? "master"
                      : part.is_margins()
                          ? "rows and columns"
                          : layout.states.slots[part.slot()].name,
                      ") holds ", value);
}

std::string FindNotFinite(const Parameters& parameters, ChunkStore& store) {
  std::string found;
  VisitModelState(parameters, store, /*with_states=*/true,
                  [&](const Parameter& parameter, StatePart part, int64_t,
                      absl::Span<const float> values) {
                    const auto bad = std::find_if_not(
                        values.begin(), values.end(),
                        [](float value) { return std::isfinite(value); });
                    if (bad == values.end()) return absl::OkStatus();
                    found =
                        DescribeValue(parameter, part, *bad, store.layout());
                    return absl::CancelledError(found);  // enough is known
                  })
      .IgnoreError();
  return found;
}

absl::StatusOr<std::string> ParametersSha256(const Parameters& parameters,
                                             ChunkStore& store,
                                             Communicator* communicator) {
  const ChunkLayout& layout = store.layout();
  CASTOR_CHECK(layout.world_size ==
               (communicator == nullptr ? 1 : communicator->world_size()));
  ShardVisitor visitor(&store);
  Sha256 sum;
  Sha256::State state = sum.state();
  int holder = 0;  // of the sum
  // The next owner needs it alone, but all have to know of its way.
  const auto hand_over = [&]() -> absl::Status {
    if (communicator == nullptr) return absl::OkStatus();
    state = sum.state();
    CASTOR_RETURN_IF_ERROR(
        Await(*communicator,
              communicator->Broadcast("sum of the parameters", 0, holder,
                                      state.data(), sizeof(state))));
    sum.set_state(state);
    return absl::OkStatus();
  };
  for (const Parameter* parameter : ByName(parameters)) {
    for (int rank = 0; rank < layout.world_size; ++rank) {
      const ParameterRange shard = ShardOf(*parameter, layout, rank);
      if (shard.begin >= shard.end) continue;
      if (rank != holder) {
        CASTOR_RETURN_IF_ERROR(hand_over());
        holder = rank;
      }
      if (rank != layout.rank) continue;
      const absl::Status added = visitor.Visit(
          *parameter, StatePart::kMaster,
          [&](int64_t, absl::Span<const float> values) {
            sum.Update(values.data(),
                       static_cast<int64_t>(values.size() * sizeof(float)));
            return absl::OkStatus();
          });
      if (!added.ok() && communicator != nullptr) communicator->Fail(added);
      CASTOR_RETURN_IF_ERROR(added);
    }
  }
  CASTOR_RETURN_IF_ERROR(hand_over());
  return sum.HexDigest();
}

}  // namespace castor
