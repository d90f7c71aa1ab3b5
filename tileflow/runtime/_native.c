/* What a warm call does most of, for tens of nanoseconds of host time: reading tensors, and launching.
 *
 * tensor_reader() gives a function that describes tensors by one bytes object, which tileflow.runtime.keys makes the
 * key of a call. metadata_reader() gives a function that reads their shapes and the like, pairs_tester() one that
 * tells whether they lie apart in memory, stream_reader() the reader of a device's current stream. They read through
 * the table of functions that DLPack calls the C exchange API and that torch.Tensor offers; its layout is that of
 * dlpack.h 1.2 and 1.3. What is read so goes through no mode of torch.overrides, which each attribute does: while
 * torch.set_default_device holds, that is a microsecond each.
 *
 * bind() takes the address of the driver's launch function and what is the same in every launch of a kernel. It gives
 * a function enqueue(stream, gx, gy, gz, *values) -> status, which packs the values on the stack and calls the driver
 * with the GIL released. tileflow.runtime.packing.python_enqueue is the same in Python; one test holds both to it.
 *
 * Only CPython's limited API of 3.11 is used, so that one build serves 3.11 and later. The driver's headers are not
 * needed: cuLaunchKernel and hipModuleLaunchKernel share one signature, and the launch attributes of CUDA 12 are laid
 * out by hand below (checked against cuda.h of CUDA 12.8).
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <limits.h>
#include <string.h>

#define VERSION 5           /* of all signatures and of keys: tileflow.runtime.native refuses another */
#define MAX_PARAMETERS 256  /* a launch keeps 16 bytes of stack for each */
#define MAX_ATTRIBUTES 64
#define LEADING 4           /* stream, gx, gy, gz stand before the values */
#define DECLINED (-1)       /* a status that no driver has: nothing was launched, for a tensor is not as the format says */
#define KEY_BYTES 8192      /* of stack, for what describes the tensors of a call */
#define MAX_TYPES 4         /* that a tensor may be of */
#define MAX_DTYPES 32       /* that DLPack's types tell apart */
#define ATTRIBUTE_BYTES 72  /* CUlaunchAttribute: int id, 4 bytes of padding, a union of 64 bytes */

_Static_assert(sizeof(void *) == 8 && sizeof(long) == 8 && sizeof(int) == 4, "a 64-bit Unix, as CUDA's and ROCm's are");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a number's low bytes come first");

/* ---- tensors, through DLPack's C exchange API --------------------------------------------------------------------- */

typedef struct { /* DLTensor */
    void *data;
    int device_type, device_index, rank;
    unsigned char code, bits;
    unsigned short lanes;
    const long *shape, *strides;
    unsigned long byte_offset;
} dl_tensor;

typedef struct dl_exchange { /* DLPackExchangeAPI */
    unsigned int major, minor;
    const struct dl_exchange *previous;
    void *allocate, *export_managed, *import_managed;
    int (*read_tensor)(void *object, dl_tensor *out);
    int (*current_stream)(int device_type, int device_index, void **out);
} dl_exchange;

_Static_assert(sizeof(dl_tensor) == 48 && sizeof(dl_exchange) == 56, "laid out as in dlpack.h");

static const char EXCHANGE[] = "dlpack_exchange_api";
/* The table in a capsule. Raises ValueError where it is of another ABI or lacks what is read through it. */
static const dl_exchange *
open_exchange(PyObject *capsule)
{
    const dl_exchange *exchange = PyCapsule_GetPointer(capsule, EXCHANGE);
    if (exchange == NULL)
        return NULL;
    while (exchange->major != 1 && exchange->previous != NULL)
        exchange = exchange->previous;
    if (exchange->major != 1 || exchange->read_tensor == NULL || exchange->current_stream == NULL) {
        PyErr_SetString(PyExc_ValueError, "DLPack's exchange API must have major version 1 and read tensors");
        return NULL;
    }
    return exchange;
}

/* Fills *out, whose pointers hold while the tensor does. Raises RuntimeError where DLPack cannot describe the tensor. */
static int
read_tensor(const dl_exchange *exchange, PyObject *tensor, dl_tensor *out)
{
    if (exchange->read_tensor(tensor, out) == 0 && (out->rank == 0 || (out->shape != NULL && out->strides != NULL)))
        return 0;
    if (!PyErr_Occurred() || !PyErr_ExceptionMatches(PyExc_RuntimeError)) {
        PyErr_Clear();
        PyErr_SetString(PyExc_RuntimeError, "a tensor that DLPack cannot describe");
    }
    return -1;
}

static int
read_stream(const dl_exchange *exchange, int device_type, int device_index, void **out)
{
    *out = NULL;
    if (exchange->current_stream(device_type, device_index, out) == 0)
        return 0;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "device %d has no current stream", device_index);
    return -1;
}

static unsigned long
address_of(const dl_tensor *tensor)
{
    return (unsigned long)tensor->data + tensor->byte_offset;
}

/* ---- bindings ----------------------------------------------------------------------------------------------------- */

typedef int (*launch_function)(void *function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                               unsigned int by, unsigned int bz, unsigned int shared, void *stream, void **params,
                               void **extra);

typedef struct { /* CUlaunchConfig */
    unsigned int gx, gy, gz, bx, by, bz, shared;
    void *stream;
    const void *attributes;
    unsigned int attribute_count;
} launch_config;

typedef int (*launch_ex_function)(const launch_config *config, void *function, void **params, void **extra);

_Static_assert(sizeof(launch_config) == 56, "CUlaunchConfig has 56 bytes");

typedef int (*is_capturing_function)(void *stream, int *status);

enum { CAPTURING = 1 }; /* CU_STREAM_CAPTURE_STATUS_ACTIVE */

typedef struct {
    char format;
    long low, high; /* what an integer must lie between; of formats iIhHbBq */
} parameter;

typedef struct { /* a function of the driver's, and the attributes that it is given, if any */
    void *launch, *attributes;
    unsigned int attribute_count;
} launching;

typedef struct { /* what bind() was given; never changed, so that threads share it */
    launching eager, captured; /* their attributes lie after the parameters */
    is_capturing_function is_capturing; /* NULL where graphs capture what is launched eagerly */
    void *function;
    unsigned int threads, shared;
    int count;  /* of the kernel's parameters */
    int values; /* that a call of enqueue() takes: null pointers (N) need none */
    const dl_exchange *exchange; /* where enqueue() reads tensors and the stream itself: of this device */
    int device_type, device_index;
    parameter parameters[];
} binding;

typedef union { /* where a kernel parameter lies; the driver reads its first bytes, as many as the kernel declares */
    unsigned long u;
    long i;
    float f;
    double d;
} slot;

static const char CAPSULE[] = "tileflow.runtime._native.binding";

/* ---- from Python's values to C's -------------------------------------------------------------------------------- */

/* Replaces CPython's messages by those that python_enqueue gives too. Other errors of __index__ or __float__ stay. */
static int
misfit(Py_ssize_t position, char format)
{
    if (PyErr_ExceptionMatches(PyExc_OverflowError))
        PyErr_Format(PyExc_OverflowError, "argument %zd does not fit '%c'", position, format);
    else if (PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "argument %zd is not a number that '%c' takes", position, format);
    return -1;
}

static int
read_unsigned(PyObject *object, unsigned long high, Py_ssize_t position, char format, unsigned long *out)
{
    unsigned long value = PyLong_AsUnsignedLong(object);
    if (value == ULONG_MAX && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError))
            return misfit(position, format);
        PyErr_Clear(); /* not an int, but perhaps something with __index__, which PyLong_AsUnsignedLong does not ask */
        PyObject *index = PyNumber_Index(object);
        if (index == NULL)
            return misfit(position, format);
        value = PyLong_AsUnsignedLong(index);
        Py_DECREF(index);
        if (value == ULONG_MAX && PyErr_Occurred())
            return misfit(position, format);
    }
    if (value > high) {
        PyErr_SetNone(PyExc_OverflowError);
        return misfit(position, format);
    }
    *out = value;
    return 0;
}

/* Fills one slot, and points *param at what the driver shall read. DECLINED: -1 without an error. */
static int
read_value(const binding *bound, PyObject *object, const parameter *as, Py_ssize_t position, slot *into, void **param)
{
    dl_tensor tensor;
    *param = into;
    switch (as->format) {
    case 'T':
    case 'A':
        if (read_tensor(bound->exchange, object, &tensor) < 0) {
            PyErr_Clear(); /* whoever launches again from Python says what is wrong with it */
            return -1;
        }
        into->u = address_of(&tensor);
        return as->format == 'A' && (into->u & 15) ? -1 : 0;
    case 'Q':
        return read_unsigned(object, ULONG_MAX, position, 'Q', &into->u);
    case 'M': /* a tensor map: the value is the address of the parameter itself */
        if (read_unsigned(object, ULONG_MAX, position, 'M', &into->u) < 0)
            return -1;
        *param = (void *)into->u;
        return 0;
    case 'f':
    case 'd': {
        double value = PyFloat_AsDouble(object);
        if (value == -1.0 && PyErr_Occurred())
            return misfit(position, as->format);
        if (as->format == 'd')
            into->d = value;
        else
            into->f = (float)value; /* too large a number becomes infinite, as with struct */
        return 0;
    }
    default: /* an integer of up to 64 bits, signed unless as->low says otherwise */
        into->i = PyLong_AsLong(object);
        if (into->i == -1 && PyErr_Occurred())
            return misfit(position, as->format);
        if (into->i < as->low || into->i > as->high) {
            PyErr_SetNone(PyExc_OverflowError);
            return misfit(position, as->format);
        }
        return 0;
    }
}

/* ---- launching -------------------------------------------------------------------------------------------------- */

/* How the stream is launched on. Of a stream that says no status, as the default one while another is captured, as any
   other: the launch itself tells what is wrong. */
static const launching *
way_of(const binding *bound, void *stream)
{
    int status = 0;
    if (bound->is_capturing == NULL || bound->is_capturing(stream, &status) != 0 || status != CAPTURING)
        return &bound->eager;
    return &bound->captured;
}

static PyObject *
enqueue(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const binding *bound = PyCapsule_GetPointer(self, CAPSULE);
    if (bound == NULL)
        return NULL;
    int leading = bound->exchange == NULL ? LEADING : LEADING - 1;
    if (count != leading + bound->values)
        return PyErr_Format(PyExc_TypeError, "enqueue takes %d arguments, but got %zd", leading + bound->values, count);

    unsigned long stream = 0, grid[3];
    if (bound->exchange == NULL && read_unsigned(args[0], ULONG_MAX, 0, 'Q', &stream) < 0)
        return NULL;
    for (int axis = 0; axis < 3; axis++)
        if (read_unsigned(args[leading - 3 + axis], UINT_MAX, leading - 3 + axis, 'I', &grid[axis]) < 0)
            return NULL;

    slot slots[MAX_PARAMETERS];
    void *params[MAX_PARAMETERS];
    Py_ssize_t next = leading;
    for (int p = 0; p < bound->count; p++) {
        const parameter *as = &bound->parameters[p];
        if (as->format == 'N') {
            slots[p].u = 0;
            params[p] = &slots[p];
        } else if (read_value(bound, args[next], as, next, &slots[p], &params[p]) < 0) {
            return PyErr_Occurred() ? NULL : PyLong_FromLong(DECLINED);
        } else {
            next++;
        }
    }

    unsigned int gx = (unsigned int)grid[0], gy = (unsigned int)grid[1], gz = (unsigned int)grid[2];
    void *on = (void *)stream;
    if (bound->exchange != NULL && read_stream(bound->exchange, bound->device_type, bound->device_index, &on) < 0)
        return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS
    const launching *way = way_of(bound, on);
    if (way->attribute_count == 0) {
        status = ((launch_function)way->launch)(bound->function, gx, gy, gz, bound->threads, 1, 1, bound->shared, on,
                                                params, NULL);
    } else {
        launch_config config = {gx, gy, gz, bound->threads, 1, 1, bound->shared, on, way->attributes,
                                way->attribute_count};
        status = ((launch_ex_function)way->launch)(&config, bound->function, params, NULL);
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(status);
}

static PyMethodDef enqueue_method = {
    "enqueue", (PyCFunction)(void (*)(void))enqueue, METH_FASTCALL,
    "enqueue(stream, gx, gy, gz, *values) -> the driver's status\n\n"
    "Takes no stream where it was bound to a device, whose current one it is then. -1: a tensor has no memory that\n"
    "DLPack can describe, or not the alignment that its format asks for. Raises OverflowError and TypeError where the values do not fit the formats; nothing was launched then."};

/* ---- binding ---------------------------------------------------------------------------------------------------- */

static void
release(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, CAPSULE));
}

/* Fills the parameters of a binding, and counts the values that they take. */
static int
set_parameters(binding *bound, const char *formats, Py_ssize_t length)
{
    static const parameter known[] = {
        {'T', 0, 0}, {'A', 0, 0}, {'Q', 0, 0}, {'M', 0, 0}, {'N', 0, 0}, {'f', 0, 0}, {'d', 0, 0}, {'q', LONG_MIN, LONG_MAX},
        {'i', INT_MIN, INT_MAX}, {'h', SHRT_MIN, SHRT_MAX}, {'b', SCHAR_MIN, SCHAR_MAX},
        {'I', 0, UINT_MAX}, {'H', 0, USHRT_MAX}, {'B', 0, UCHAR_MAX}};
    const size_t end = sizeof(known) / sizeof(known[0]);
    for (Py_ssize_t p = 0; p < length; p++) {
        size_t k = 0;
        while (k < end && known[k].format != formats[p])
            k++;
        if (k == end || (k < 2 && bound->exchange == NULL)) {
            PyErr_Format(PyExc_ValueError, "parameter %zd must have one of the formats QMNfdqihbIHB, or TA of a device", p);
            return -1;
        }
        bound->parameters[p] = known[k];
        bound->values += formats[p] != 'N';
    }
    bound->count = (int)length;
    return 0;
}

typedef struct { /* a launching as bind() is given it */
    unsigned long launch;
    char *attributes;
    Py_ssize_t length;
} given_launching;

static int
read_launching(PyObject *const *args, int first, given_launching *out)
{
    if (read_unsigned(args[first], ULONG_MAX, first, 'Q', &out->launch) < 0 ||
        PyBytes_AsStringAndSize(args[first + 1], &out->attributes, &out->length) < 0)
        return -1;
    if (out->length % ATTRIBUTE_BYTES == 0 && out->length <= MAX_ATTRIBUTES * ATTRIBUTE_BYTES)
        return 0;
    PyErr_Format(PyExc_ValueError, "bind takes at most %d whole launch attributes", MAX_ATTRIBUTES);
    return -1;
}

/* Copies the attributes to where they stay. */
static launching
kept_at(unsigned char *place, const given_launching *given)
{
    memcpy(place, given->attributes, (size_t)given->length);
    return (launching){(void *)given->launch, place, (unsigned int)(given->length / ATTRIBUTE_BYTES)};
}

static PyObject *
bind(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    enum { FUNCTION, THREADS, SHARED, FORMATS, EAGER, CAPTURED = EAGER + 2, IS_CAPTURING = CAPTURED + 2, EXCHANGE };
    unsigned long function, threads, shared, is_capturing;
    given_launching eager, captured;
    char *formats;
    Py_ssize_t formats_length;
    unsigned long device[2] = {0, 0};
    if (count != EXCHANGE && count != EXCHANGE + 3)
        return PyErr_Format(PyExc_TypeError, "bind takes %d or %d arguments, but got %zd", EXCHANGE, EXCHANGE + 3, count);
    if (read_unsigned(args[FUNCTION], ULONG_MAX, FUNCTION, 'Q', &function) < 0 ||
        read_unsigned(args[THREADS], UINT_MAX, THREADS, 'I', &threads) < 0 ||
        read_unsigned(args[SHARED], UINT_MAX, SHARED, 'I', &shared) < 0 ||
        PyBytes_AsStringAndSize(args[FORMATS], &formats, &formats_length) < 0 ||
        read_launching(args, EAGER, &eager) < 0 || read_launching(args, CAPTURED, &captured) < 0 ||
        read_unsigned(args[IS_CAPTURING], ULONG_MAX, IS_CAPTURING, 'Q', &is_capturing) < 0)
        return NULL;
    if (eager.launch == 0 || (is_capturing != 0 && captured.launch == 0) || formats_length > MAX_PARAMETERS)
        return PyErr_Format(PyExc_ValueError, "bind takes functions' addresses, and at most %d parameters", MAX_PARAMETERS);

    const dl_exchange *exchange = NULL;
    if (count > EXCHANGE && ((exchange = open_exchange(args[EXCHANGE])) == NULL ||
                             read_unsigned(args[EXCHANGE + 1], INT_MAX, EXCHANGE + 1, 'I', &device[0]) < 0 ||
                             read_unsigned(args[EXCHANGE + 2], INT_MAX, EXCHANGE + 2, 'I', &device[1]) < 0))
        return NULL;

    size_t parameters_bytes = (size_t)formats_length * sizeof(parameter);
    binding *bound = PyMem_Calloc(1, sizeof(binding) + parameters_bytes + (size_t)(eager.length + captured.length));
    if (bound == NULL)
        return PyErr_NoMemory();
    bound->exchange = exchange;
    bound->device_type = (int)device[0];
    bound->device_index = (int)device[1];
    bound->function = (void *)function;
    bound->threads = (unsigned int)threads;
    bound->shared = (unsigned int)shared;
    unsigned char *attributes = (unsigned char *)bound->parameters + parameters_bytes;
    bound->eager = kept_at(attributes, &eager);
    bound->captured = kept_at(attributes + eager.length, &captured);
    bound->is_capturing = (is_capturing_function)is_capturing;
    PyObject *capsule = NULL;
    if (set_parameters(bound, formats, formats_length) == 0)
        capsule = PyCapsule_New(bound, CAPSULE, release);
    if (capsule == NULL) {
        PyMem_Free(bound);
        return NULL;
    }
    PyObject *made = PyCFunction_NewEx(&enqueue_method, capsule, NULL);
    Py_DECREF(capsule); /* the function holds it now; without one this releases the binding */
    return made;
}

/* ---- keys of tensors ---------------------------------------------------------------------------------------------- */

typedef struct { /* of one tensor in a key; the shape and the strides follow it */
    int device_type, device_index, rank;
    unsigned char code, bits;
    unsigned short lanes;
    unsigned char aligned, negated;
    unsigned char zero[6]; /* a key has no bytes that nobody wrote */
    unsigned long dtype;   /* the address of torch's object, or 0 where DLPack's dtype says it all */
} record;

_Static_assert(sizeof(record) == 32, "without padding");

typedef struct { /* of which a tensor is exactly one */
    PyObject *types[MAX_TYPES];
    int count;
} tensor_types;

typedef struct { /* what tensor_reader() was given, and the names that it looks up */
    const dl_exchange *exchange;
    tensor_types types;
    PyObject *grad_enabled, *is_neg, *requires_grad, *dtype;
} reading;

static const char READING[] = "tileflow.runtime._native.reading";
/* Whether a flag of a tensor is set: 0, 1, or -1 with an error. Steals the reference to what was read. */
static int
truth(PyObject *flag)
{
    if (flag == NULL)
        return -1;
    int set = flag == Py_True ? 1 : flag == Py_False ? 0 : PyObject_IsTrue(flag);
    Py_DECREF(flag);
    return set;
}

static int
is_of(const tensor_types *types, PyObject *object)
{
    for (int i = 0; i < types->count; i++)
        if ((PyObject *)Py_TYPE(object) == types->types[i])
            return 1;
    return 0;
}

/* Keeps references to the types of a tuple. */
static int
set_types(tensor_types *types, PyObject *given)
{
    if (PyTuple_Size(given) > MAX_TYPES) {
        PyErr_Format(PyExc_ValueError, "a tensor is of one of at most %d types", MAX_TYPES);
        return -1;
    }
    for (; types->count < PyTuple_Size(given); types->count++)
        types->types[types->count] = Py_NewRef(PyTuple_GetItem(given, types->count));
    return 0;
}

static void
release_types(tensor_types *types)
{
    while (types->count > 0)
        Py_DECREF(types->types[--types->count]);
}

/* torch.int1 to int7 look like int8 in DLPack, and the unsigned ones likewise. torch's dtypes live for good. */
static int
read_dtype(const reading *with, PyObject *object, const dl_tensor *tensor, unsigned long *out)
{
    *out = 0;
    if (tensor->code > 1 || tensor->bits > 8)
        return 0;
    PyObject *dtype = PyObject_GetAttr(object, with->dtype);
    if (dtype == NULL)
        return -1;
    *out = (unsigned long)dtype;
    Py_DECREF(dtype);
    return 0;
}

static PyObject *
read_tensors(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const reading *with = PyCapsule_GetPointer(self, READING);
    if (with == NULL)
        return NULL;
    char key[KEY_BYTES];
    size_t used = 0;
    int learned = 0, records = truth(PyObject_CallNoArgs(with->grad_enabled));
    if (records < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        dl_tensor tensor;
        if (!is_of(&with->types, args[i]))
            return PyErr_Format(PyExc_RuntimeError, "argument %zd is not a tensor", i);
        if (read_tensor(with->exchange, args[i], &tensor) < 0)
            return NULL;
        int negated = truth(PyObject_CallMethodObjArgs(args[i], with->is_neg, NULL));
        int asks = records && !learned && negated >= 0;
        int requires = asks ? truth(PyObject_GetAttr(args[i], with->requires_grad)) : 0;
        unsigned long dtype;
        if (negated < 0 || requires < 0 || read_dtype(with, args[i], &tensor, &dtype) < 0)
            return NULL;
        learned |= requires;

        record about = {tensor.device_type, tensor.device_index, tensor.rank, tensor.code, tensor.bits, tensor.lanes,
                        (address_of(&tensor) & 15) == 0, (unsigned char)negated, {0}, dtype};
        size_t axes = (size_t)tensor.rank * sizeof(long);
        if (used + sizeof about + 2 * axes + 1 > sizeof key)
            return PyErr_Format(PyExc_RuntimeError, "the tensors' key takes more than %d bytes", KEY_BYTES);
        memcpy(key + used, &about, sizeof about);
        used += sizeof about;
        if (axes) {
            memcpy(key + used, tensor.shape, axes);
            memcpy(key + used + axes, tensor.strides, axes);
            used += 2 * axes;
        }
    }
    key[used++] = (char)learned;
    return PyBytes_FromStringAndSize(key, (Py_ssize_t)used);
}

static PyMethodDef read_tensors_method = {
    "read_tensors", (PyCFunction)(void (*)(void))read_tensors, METH_FASTCALL,
    "read_tensors(*tensors) -> bytes\n\n"
    "What a kernel sees of the tensors but their contents: devices, dtypes, shapes, strides, alignment to 16 bytes,\n"
    "whether they are lazily negated; and whether autograd would record a call with them. Raises RuntimeError for what\n"
    "is not a tensor with memory, and for a dtype that DLPack has no code for."};

static void
release_reading(PyObject *capsule)
{
    reading *with = PyCapsule_GetPointer(capsule, READING);
    release_types(&with->types);
    Py_XDECREF(with->grad_enabled);
    Py_XDECREF(with->is_neg);
    Py_XDECREF(with->requires_grad);
    Py_XDECREF(with->dtype);
    PyMem_Free(with);
}

static PyObject *
tensor_reader(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 3 || !PyTuple_Check(args[1]) || !PyCallable_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "tensor_reader takes a capsule, a tuple of types and a function");
    const dl_exchange *exchange = open_exchange(args[0]);
    if (exchange == NULL)
        return NULL;
    reading *with = PyMem_Calloc(1, sizeof(reading));
    if (with == NULL)
        return PyErr_NoMemory();
    with->exchange = exchange;
    PyObject *capsule = PyCapsule_New(with, READING, release_reading);
    if (capsule == NULL) {
        PyMem_Free(with);
        return NULL;
    }
    with->grad_enabled = Py_NewRef(args[2]);
    with->is_neg = PyUnicode_InternFromString("is_neg");
    with->requires_grad = PyUnicode_InternFromString("requires_grad");
    PyObject *made = NULL;
    with->dtype = PyUnicode_InternFromString("dtype");
    int is_named = with->is_neg != NULL && with->requires_grad != NULL && with->dtype != NULL;
    if (is_named && set_types(&with->types, args[1]) == 0)
        made = PyCFunction_NewEx(&read_tensors_method, capsule, NULL);
    Py_DECREF(capsule);
    return made;
}

/* ---- metadata of tensors ----------------------------------------------------------------------------------------- */

typedef struct { /* DLDataType, and torch's object for it */
    unsigned char code, bits;
    unsigned short lanes;
    PyObject *dtype;
} known_dtype;

typedef struct { /* what metadata_reader() was given */
    const dl_exchange *exchange;
    tensor_types types;
    PyObject *otherwise;
    known_dtype dtypes[MAX_DTYPES];
    int count;
} describing;

enum { ADDRESS = 1, SHAPE = 2, STRIDES = 4, DTYPE = 8, ORDINAL = 16, LAST_FIELD = ORDINAL };
enum { DL_CPU = 1, DL_CUDA_HOST = 3, DL_ROCM_HOST = 11 }; /* DLDeviceType: memory of the host, pinned or not */

static const char DESCRIBING[] = "tileflow.runtime._native.describing";

static PyObject *
ints_of(const long *numbers, int count)
{
    PyObject *made = PyTuple_New(count);
    for (int i = 0; made != NULL && i < count; i++) {
        PyObject *number = PyLong_FromLong(numbers[i]);
        if (number == NULL || PyTuple_SetItem(made, i, number) < 0)
            Py_CLEAR(made);
    }
    return made;
}

/* As Tensor.get_device says it. */
static PyObject *
ordinal_of(const dl_tensor *tensor)
{
    int type = tensor->device_type;
    int is_of_host = type == DL_CPU || type == DL_CUDA_HOST || type == DL_ROCM_HOST;
    return PyLong_FromLong(is_of_host ? -1 : tensor->device_index);
}

/* NULL without an error where DLPack's dtype does not tell torch's. */
static PyObject *
dtype_of(const describing *with, const dl_tensor *tensor)
{
    for (int i = 0; i < with->count; i++) {
        const known_dtype *known = &with->dtypes[i];
        if (known->code == tensor->code && known->bits == tensor->bits && known->lanes == tensor->lanes)
            return Py_NewRef(known->dtype);
    }
    return NULL;
}

static PyObject *
field_of(const describing *with, const dl_tensor *tensor, int field)
{
    switch (field) {
    case ADDRESS:
        return PyLong_FromUnsignedLong(address_of(tensor));
    case SHAPE:
        return ints_of(tensor->shape, tensor->rank);
    case STRIDES:
        return ints_of(tensor->strides, tensor->rank);
    case DTYPE:
        return dtype_of(with, tensor);
    default:
        return ordinal_of(tensor);
    }
}

/* Fills a tuple from *place on with these fields of a tensor. -1, perhaps without an error: it is of another type, or
   DLPack does not tell all of it. */
static int
add_fields(const describing *with, PyObject *object, unsigned char fields, PyObject *made, Py_ssize_t *place)
{
    dl_tensor tensor;
    if (!is_of(&with->types, object))
        return -1;
    if (read_tensor(with->exchange, object, &tensor) < 0) {
        PyErr_Clear(); /* the tensor's attributes say what is wrong with it */
        return -1;
    }
    for (int field = ADDRESS; field <= LAST_FIELD; field <<= 1) {
        PyObject *found = fields & field ? field_of(with, &tensor, field) : NULL;
        if (found == NULL && fields & field)
            return -1;
        if (found != NULL && PyTuple_SetItem(made, (*place)++, found) < 0)
            return -1;
    }
    return 0;
}

static PyObject *
metadata(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const describing *with = PyCapsule_GetPointer(self, DESCRIBING);
    char *fields;
    Py_ssize_t length, size = 0, place = 0;
    if (with == NULL)
        return NULL;
    if (count < 1 || count > MAX_PARAMETERS)
        return PyErr_Format(PyExc_TypeError, "metadata takes bytes, and at most %d tensors", MAX_PARAMETERS - 1);
    if (PyBytes_AsStringAndSize(args[0], &fields, &length) < 0)
        return NULL;
    if (length != count - 1)
        return PyErr_Format(PyExc_TypeError, "metadata takes a byte for each tensor: %zd, not %zd", count - 1, length);
    for (Py_ssize_t i = 0; i < length; i++)
        size += __builtin_popcount((unsigned char)fields[i] & (2 * LAST_FIELD - 1));
    PyObject *made = PyTuple_New(size);
    for (Py_ssize_t i = 0; made != NULL && i < length; i++)
        if (add_fields(with, args[1 + i], (unsigned char)fields[i], made, &place) < 0)
            Py_CLEAR(made);
    if (made != NULL || PyErr_Occurred())
        return made;
    PyObject *given = PyTuple_New(count);
    for (Py_ssize_t i = 0; given != NULL && i < count; i++)
        if (PyTuple_SetItem(given, i, Py_NewRef(args[i])) < 0)
            Py_CLEAR(given);
    made = given == NULL ? NULL : PyObject_CallObject(with->otherwise, given);
    Py_XDECREF(given);
    return made;
}

static PyMethodDef metadata_method = {
    "metadata", (PyCFunction)(void (*)(void))metadata, METH_FASTCALL,
    "metadata(fields, *tensors) -> tuple\n\n"
    "One after the other what is asked of each tensor, by the bits of its byte in fields: 1 the address of its first\n"
    "element, 2 its shape, 4 its strides, 8 its dtype, 16 the ordinal of its device, which is -1 for a CPU."};

static void
release_describing(PyObject *capsule)
{
    describing *with = PyCapsule_GetPointer(capsule, DESCRIBING);
    release_types(&with->types);
    Py_XDECREF(with->otherwise);
    for (int i = 0; i < with->count; i++)
        Py_DECREF(with->dtypes[i].dtype);
    PyMem_Free(with);
}

/* Fills the dtypes out of a tuple of tuples (code, bits, dtype). */
static int
set_dtypes(describing *with, PyObject *given)
{
    if (PyTuple_Size(given) > MAX_DTYPES) {
        PyErr_Format(PyExc_ValueError, "metadata_reader takes at most %d dtypes", MAX_DTYPES);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(given); i++) {
        known_dtype *known = &with->dtypes[i];
        PyObject *dtype;
        if (!PyArg_ParseTuple(PyTuple_GetItem(given, i), "bbO", &known->code, &known->bits, &dtype))
            return -1;
        known->lanes = 1;
        known->dtype = Py_NewRef(dtype);
        with->count++;
    }
    return 0;
}

static PyObject *
metadata_reader(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    enum { EXCHANGE, TYPES, DTYPES, OTHERWISE, GIVEN };
    if (count != GIVEN || !PyTuple_Check(args[TYPES]) || !PyTuple_Check(args[DTYPES]))
        return PyErr_Format(PyExc_TypeError, "metadata_reader takes a capsule, two tuples and a function");
    const dl_exchange *exchange = open_exchange(args[EXCHANGE]);
    if (exchange == NULL)
        return NULL;
    describing *with = PyMem_Calloc(1, sizeof(describing));
    if (with == NULL)
        return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(with, DESCRIBING, release_describing);
    if (capsule == NULL) {
        PyMem_Free(with);
        return NULL;
    }
    with->exchange = exchange;
    with->otherwise = Py_NewRef(args[OTHERWISE]);
    PyObject *made = NULL;
    if (set_types(&with->types, args[TYPES]) == 0 && set_dtypes(with, args[DTYPES]) == 0)
        made = PyCFunction_NewEx(&metadata_method, capsule, NULL);
    Py_DECREF(capsule);
    return made;
}

/* ---- pairs --------------------------------------------------------------------------------------------------------- */

static const char TESTING[] = "tileflow.runtime._native.testing";

/* The bytes from a tensor's first element to behind its last: nothing of an empty one. Strides may count down. */
static void
extent_of(const dl_tensor *tensor, unsigned long *begin, unsigned long *end)
{
    unsigned long size = (unsigned long)(tensor->bits * tensor->lanes + 7) / 8, first = address_of(tensor);
    *begin = first;
    *end = first + size;
    for (int i = 0; i < tensor->rank; i++) {
        long reach = (tensor->shape[i] - 1) * tensor->strides[i] * (long)size;
        if (tensor->shape[i] == 0) {
            *end = *begin;
            return;
        }
        if (reach < 0)
            *begin += (unsigned long)reach;
        else
            *end += (unsigned long)reach;
    }
}

static int
is_same(const dl_tensor *a, const dl_tensor *b)
{
    size_t axes = (size_t)a->rank * sizeof(long);
    return address_of(a) == address_of(b) && a->rank == b->rank && a->bits == b->bits && a->lanes == b->lanes &&
           (axes == 0 || (memcmp(a->shape, b->shape, axes) == 0 && memcmp(a->strides, b->strides, axes) == 0));
}

static PyObject *
test_pairs(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const dl_exchange **exchange = PyCapsule_GetPointer(self, TESTING);
    char *pairs;
    Py_ssize_t length;
    if (exchange == NULL || count < 1 || count > MAX_PARAMETERS || PyBytes_AsStringAndSize(args[0], &pairs, &length) < 0)
        return exchange == NULL || PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "pairs, and their tensors");
    for (Py_ssize_t i = 0; i + 2 < length; i += 3) {
        Py_ssize_t first = 1 + (unsigned char)pairs[i], second = 1 + (unsigned char)pairs[i + 1];
        if (first >= count || second >= count)
            return PyErr_Format(PyExc_ValueError, "a pair of tensors that were not given");
        dl_tensor a, b;
        unsigned long a_begin, a_end, b_begin, b_end;
        if (read_tensor(*exchange, args[first], &a) < 0 || read_tensor(*exchange, args[second], &b) < 0)
            return NULL;
        extent_of(&a, &a_begin, &a_end);
        extent_of(&b, &b_begin, &b_end);
        int is_apart = a_end <= b_begin || b_end <= a_begin;
        if (!is_apart && !(pairs[i + 2] && is_same(&a, &b)))
            Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

static PyMethodDef test_pairs_method = {
    "test_pairs", (PyCFunction)(void (*)(void))test_pairs, METH_FASTCALL,
    "test_pairs(pairs, *tensors) -> bool\n\n"
    "Whether the tensors of each pair surely lie apart, or are the same where the pair allows it. Three bytes a pair:\n"
    "the numbers of its tensors, and whether they may be the same. Raises RuntimeError for what has no memory."};

static void
release_testing(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, TESTING));
}

static PyObject *
pairs_tester(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    const dl_exchange *exchange = count == 1 ? open_exchange(args[0]) : NULL;
    if (count != 1)
        return PyErr_Format(PyExc_TypeError, "pairs_tester takes 1 argument, but got %zd", count);
    if (exchange == NULL)
        return NULL;
    const dl_exchange **held = PyMem_Calloc(1, sizeof *held);
    if (held == NULL)
        return PyErr_NoMemory();
    *held = exchange;
    PyObject *capsule = PyCapsule_New(held, TESTING, release_testing);
    if (capsule == NULL) {
        PyMem_Free(held);
        return NULL;
    }
    PyObject *made = PyCFunction_NewEx(&test_pairs_method, capsule, NULL);
    Py_DECREF(capsule);
    return made;
}

/* ---- streams ------------------------------------------------------------------------------------------------------ */

typedef struct {
    const dl_exchange *exchange;
    int device_type, device_index;
} streaming;

static const char STREAMING[] = "tileflow.runtime._native.streaming";
static PyObject *
current_stream(PyObject *self, PyObject *unused)
{
    (void)unused;
    const streaming *of = PyCapsule_GetPointer(self, STREAMING);
    void *stream;
    if (of == NULL || read_stream(of->exchange, of->device_type, of->device_index, &stream) < 0)
        return NULL;
    return PyLong_FromUnsignedLong((unsigned long)stream);
}

static PyMethodDef current_stream_method = {
    "current_stream", current_stream, METH_NOARGS, "current_stream() -> the raw handle of a device's current stream"};

static void
release_streaming(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, STREAMING));
}

static PyObject *
stream_reader(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    unsigned long type, index;
    const dl_exchange *exchange = count == 3 ? open_exchange(args[0]) : NULL;
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "stream_reader takes 3 arguments, but got %zd", count);
    if (exchange == NULL || read_unsigned(args[1], INT_MAX, 1, 'I', &type) < 0 ||
        read_unsigned(args[2], INT_MAX, 2, 'I', &index) < 0)
        return NULL;
    streaming *of = PyMem_Calloc(1, sizeof(streaming));
    if (of == NULL)
        return PyErr_NoMemory();
    *of = (streaming){exchange, (int)type, (int)index};
    PyObject *capsule = PyCapsule_New(of, STREAMING, release_streaming);
    if (capsule == NULL) {
        PyMem_Free(of);
        return NULL;
    }
    PyObject *made = PyCFunction_NewEx(&current_stream_method, capsule, NULL);
    Py_DECREF(capsule);
    return made;
}

static PyMethodDef methods[] = {
    {"pairs_tester", (PyCFunction)(void (*)(void))pairs_tester, METH_FASTCALL, "pairs_tester(exchange) -> test_pairs"},
    {"stream_reader", (PyCFunction)(void (*)(void))stream_reader, METH_FASTCALL,
     "stream_reader(exchange, device_type, device_index) -> current_stream"},
    {"metadata_reader", (PyCFunction)(void (*)(void))metadata_reader, METH_FASTCALL,
     "metadata_reader(exchange, types, dtypes, otherwise) -> metadata\n\n"
     "types: as of tensor_reader. dtypes: (DLPack's code, bits, torch's dtype) of those that they tell. otherwise:\n"
     "the same in Python, which is asked where something is of another type, or DLPack does not tell all of it."},
    {"tensor_reader", (PyCFunction)(void (*)(void))tensor_reader, METH_FASTCALL,
     "tensor_reader(exchange, types, grad_enabled) -> read_tensors\n\n"
     "exchange: torch.Tensor.__dlpack_c_exchange_api__. types: those that a tensor may be of, exactly.\n"
     "grad_enabled: whether autograd records now."},
    {"bind", (PyCFunction)(void (*)(void))bind, METH_FASTCALL,
     "bind(function, threads, shared, formats, launch, attributes, captured_launch, captured_attributes, is_capturing,\n"
     "     [exchange, device_type, device_index]) -> enqueue\n\n"
     "function: the driver's handle. formats: a character for each kernel parameter, struct's QqIiHhBbfd, M (a tensor\n"
     "map's address) or N (a null pointer without a value). launch: the address of cuLaunchKernel or\n"
     "hipModuleLaunchKernel; of cuLaunchKernelEx where there are attributes (CUlaunchAttribute after CUlaunchAttribute,\n"
     "as bytes). captured_launch, captured_attributes: the same while the stream is captured, as is_capturing, the\n"
     "address of cuStreamIsCapturing, says; where that is 0, a stream is launched on in one way.\n"
     "exchange: torch.Tensor.__dlpack_c_exchange_api__, with DLPack's numbers of the device that is launched on. Formats\n"
     "are T (a tensor, whose memory is passed) and A (the same, aligned to 16 bytes) too then."},
    {NULL, NULL, 0, NULL}};

static int
execute(PyObject *module)
{
    return PyModule_AddIntConstant(module, "VERSION", VERSION) | PyModule_AddIntConstant(module, "DECLINED", DECLINED);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "Kernel launches without Python between the values and the driver.", 0,
    methods, module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
