#include "benchmarks/dry_trace.h"

#include <utility>

#include "base/check.h"
#include "models/gpt2/gpt2.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/trainer.h"

namespace castor {

StepTrace DryTrace(const SyntheticRun& run, int64_t micro_batches, DType dtype,
                   bool remade) {
  Engine engine(dtype, 1);
  const ZeroInit scope(engine);
  models::Gpt2 model(run.Model());
  TrainerOptions options;
  options.shape = run.Shape();
  options.shape.micro_batches = micro_batches;
  options.optimizer.gradient_clipping = 1;
  options.admit_only = true;
  auto trainer = Trainer::Create(&engine, &model, options);
  CASTOR_CHECK(trainer.ok());
  const ChunkLayout layout = (*trainer)->layout();
  trainer->reset();
  engine.SetLayout(&layout);
  if (remade) engine.set_kept_blocks(KeptBlocks());
  auto trace = DryRunWithBlocks(engine, model, options.shape, &layout,
                                /*accumulate=*/micro_batches > 1, Roofline());
  CASTOR_CHECK(trace.ok());
  trace->global_norm = true;
  return *std::move(trace);
}

}  // namespace castor
