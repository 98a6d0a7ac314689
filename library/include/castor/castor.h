// Everything that a program needs to train a model of its own:
//
//   castor::Engine engine(castor::DType::kBFloat16, /*seed=*/1);
//   castor::ZeroInit scope(engine);   // parameters made here live in chunks
//   MyModel model;                    // a castor::Model of castor::nn modules
//   auto trainer = castor::Trainer::Create(&engine, &model, options);
//
// The headers named here are Castor's public interface (docs/library.md). What
// they include in turn is installed with them and may change at any time.
// examples/custom_model and examples/own_parts are whole programs.
#ifndef CASTOR_CASTOR_H_
#define CASTOR_CASTOR_H_

// Numbers, errors, versions.
#include "base/dtype.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "castor/version.h"

// Several ranks.
#include "client/launched_ranks.h"
#include "device/comm/launch_env.h"
#include "device/comm/rank_group.h"

// Models: parameters, tensors, operators, one's own operators.
#include "models/families.h"
#include "run/model/model_state.h"
#include "run/model/parameter.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"
#include "runtime/autograd/tensor.h"
#include "runtime/nn/model.h"
#include "runtime/nn/modules.h"
#include "runtime/nn/zero_init.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/embedding.h"
#include "runtime/ops/head_loss.h"
#include "runtime/ops/last_position.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/position_loss.h"
#include "runtime/ops/rms_norm.h"
#include "runtime/ops/rotary.h"

// Training: the trainer, what it is told, what it plans.
#include "run/gpu.h"
#include "run/options.h"
#include "run/program/admission.h"
#include "run/program/forecast.h"
#include "runtime/train/micro_batch.h"
#include "runtime/train/trainer.h"
#include "runtime/train/trainer_checkpoints.h"
#include "runtime/train/trainer_options.h"

// Optimizers, one's own among them, and schedules of the learning rate.
#include "run/optim/adafactor/adafactor.h"
#include "run/optim/adam/adam.h"
#include "run/optim/lamb/lamb.h"
#include "run/optim/lion/lion.h"
#include "run/optim/lr_schedule.h"
#include "run/optim/optimizer.h"
#include "run/optim/optimizers.h"
#include "run/optim/sgd/sgd.h"

// Data.
#include "runtime/data/data_set.h"
#include "runtime/data/token_data.h"
#include "runtime/data/token_file.h"
#include "text/data/chat_encoding.h"
#include "text/data/open_data.h"
#include "text/data/tokenizer_encoding.h"

// Checkpoints, weights of Hugging Face's, traces.
#include "run/checkpoint/checkpoint.h"
#include "run/checkpoint/checkpoint_dir.h"
#include "run/checkpoint/checkpoint_reader.h"
#include "run/report/run_trace.h"
#include "runtime/weights/hf_export.h"
#include "runtime/weights/pretrained.h"
#include "tracer/trace_file.h"

#endif  // CASTOR_CASTOR_H_
