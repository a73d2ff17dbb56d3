// The C interface of a compiled policy; its one text is a part of the emitter, which writes the other side of
// it.
#include "../../src/pymlgo/emit/templates/policy_abi.h"
