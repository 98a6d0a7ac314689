// Everything that a program needs to train a model of its own:
//
//   castor::Engine engine(castor::DType::kBFloat16, /*seed=*/1);
//   castor::ZeroInit scope(engine);   // parameters made here live in chunks
//   MyModel model;                    // a castor::Model of castor::nn modules
//   auto trainer = castor::Trainer::Create(&engine, &model, options);
//
// examples/custom_model is a whole program.
#ifndef CASTOR_RUNTIME_CASTOR_H_
#define CASTOR_RUNTIME_CASTOR_H_

#include "base/dtype.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "run/model/model_state.h"
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
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/rms_norm.h"
#include "runtime/train/trainer.h"

#endif  // CASTOR_RUNTIME_CASTOR_H_
