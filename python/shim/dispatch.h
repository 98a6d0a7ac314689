// Detects the uses of parameters: PyTorch's dispatcher hands every operator
// that a listening thread calls, or its autograd threads call, to a fallback of
// ours, which asks for the parameters among its arguments and then lets the
// operator go on. A whole nested call is one use.
//
// An operator that only makes a view, or reads shapes alone, is no use: its
// result has the parameter's storage, and the operator that reads it is the
// use. An operator that writes to a parameter is an error.
//
// The fallback has the dispatch key TESTING_ONLY_GenericMode, on which PyTorch
// itself registers nothing; it lies above autograd and autocast and below
// torch.compile's tracing. Two extensions with a fallback on it cannot be in
// one process: the dispatcher refuses the second when it is loaded.
#ifndef CASTOR_PYTHON_SHIM_DISPATCH_H_
#define CASTOR_PYTHON_SHIM_DISPATCH_H_

namespace castor::shim {

// Switches listening on or off for the calling thread, and for autograd's work
// on its behalf.
void ListenToOperators(bool listen);

// Returns true if the calling thread listens, or works for autograd on behalf
// of one that does.
bool WorksForListener();

}  // namespace castor::shim

#endif  // CASTOR_PYTHON_SHIM_DISPATCH_H_
