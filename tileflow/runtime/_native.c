/* Launches a GPU kernel for a few tens of nanoseconds of host time above the driver's own.
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

#define VERSION 1           /* of bind()'s and enqueue()'s signatures: tileflow.runtime.native refuses another */
#define MAX_PARAMETERS 256  /* a launch keeps 16 bytes of stack for each */
#define MAX_ATTRIBUTES 64
#define LEADING 4           /* stream, gx, gy, gz stand before the values */
#define ATTRIBUTE_BYTES 72  /* CUlaunchAttribute: int id, 4 bytes of padding, a union of 64 bytes */

_Static_assert(sizeof(void *) == 8 && sizeof(long) == 8 && sizeof(int) == 4, "a 64-bit Unix, as CUDA's and ROCm's are");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a number's low bytes come first");

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

typedef struct {
    char format;
    long low, high; /* what an integer must lie between; of formats iIhHbBq */
} parameter;

typedef struct { /* what bind() was given; never changed, so that threads share it */
    void *launch, *function;
    unsigned int threads, shared, attribute_count;
    int count;  /* of the kernel's parameters */
    int values; /* that a call of enqueue() takes: null pointers (N) need none */
    void *attributes; /* lie after the parameters */
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

/* Fills one slot, and points *param at what the driver shall read. */
static int
read_value(PyObject *object, const parameter *as, Py_ssize_t position, slot *into, void **param)
{
    *param = into;
    switch (as->format) {
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

static PyObject *
enqueue(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const binding *bound = PyCapsule_GetPointer(self, CAPSULE);
    if (bound == NULL)
        return NULL;
    if (count != LEADING + bound->values)
        return PyErr_Format(PyExc_TypeError, "enqueue takes %d arguments, but got %zd", LEADING + bound->values, count);

    unsigned long stream, grid[3];
    if (read_unsigned(args[0], ULONG_MAX, 0, 'Q', &stream) < 0)
        return NULL;
    for (int axis = 0; axis < 3; axis++)
        if (read_unsigned(args[1 + axis], UINT_MAX, 1 + axis, 'I', &grid[axis]) < 0)
            return NULL;

    slot slots[MAX_PARAMETERS];
    void *params[MAX_PARAMETERS];
    Py_ssize_t next = LEADING;
    for (int p = 0; p < bound->count; p++) {
        const parameter *as = &bound->parameters[p];
        if (as->format == 'N') {
            slots[p].u = 0;
            params[p] = &slots[p];
        } else if (read_value(args[next], as, next, &slots[p], &params[p]) < 0) {
            return NULL;
        } else {
            next++;
        }
    }

    unsigned int gx = (unsigned int)grid[0], gy = (unsigned int)grid[1], gz = (unsigned int)grid[2];
    void *on = (void *)stream;
    int status;
    Py_BEGIN_ALLOW_THREADS
    if (bound->attribute_count == 0) {
        status = ((launch_function)bound->launch)(bound->function, gx, gy, gz, bound->threads, 1, 1, bound->shared, on,
                                                  params, NULL);
    } else {
        launch_config config = {gx, gy, gz, bound->threads, 1, 1, bound->shared, on, bound->attributes,
                                bound->attribute_count};
        status = ((launch_ex_function)bound->launch)(&config, bound->function, params, NULL);
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(status);
}

static PyMethodDef enqueue_method = {
    "enqueue", (PyCFunction)(void (*)(void))enqueue, METH_FASTCALL,
    "enqueue(stream, gx, gy, gz, *values) -> the driver's status\n\n"
    "Raises OverflowError and TypeError where the values do not fit the formats; nothing was launched then."};

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
        {'Q', 0, 0}, {'M', 0, 0}, {'N', 0, 0}, {'f', 0, 0}, {'d', 0, 0}, {'q', LONG_MIN, LONG_MAX},
        {'i', INT_MIN, INT_MAX}, {'h', SHRT_MIN, SHRT_MAX}, {'b', SCHAR_MIN, SCHAR_MAX},
        {'I', 0, UINT_MAX}, {'H', 0, USHRT_MAX}, {'B', 0, UCHAR_MAX}};
    const size_t end = sizeof(known) / sizeof(known[0]);
    for (Py_ssize_t p = 0; p < length; p++) {
        size_t k = 0;
        while (k < end && known[k].format != formats[p])
            k++;
        if (k == end) {
            PyErr_Format(PyExc_ValueError, "parameter %zd must have one of the formats QMNfdqihbIHB", p);
            return -1;
        }
        bound->parameters[p] = known[k];
        bound->values += formats[p] != 'N';
    }
    bound->count = (int)length;
    return 0;
}

static PyObject *
bind(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    unsigned long launch, function, threads, shared;
    char *formats, *attributes;
    Py_ssize_t formats_length, attributes_length;
    if (count != 6)
        return PyErr_Format(PyExc_TypeError, "bind takes 6 arguments, but got %zd", count);
    if (read_unsigned(args[0], ULONG_MAX, 0, 'Q', &launch) < 0 ||
        read_unsigned(args[1], ULONG_MAX, 1, 'Q', &function) < 0 ||
        read_unsigned(args[2], UINT_MAX, 2, 'I', &threads) < 0 ||
        read_unsigned(args[3], UINT_MAX, 3, 'I', &shared) < 0 ||
        PyBytes_AsStringAndSize(args[4], &formats, &formats_length) < 0 ||
        PyBytes_AsStringAndSize(args[5], &attributes, &attributes_length) < 0)
        return NULL;
    if (launch == 0 || formats_length > MAX_PARAMETERS || attributes_length % ATTRIBUTE_BYTES != 0 ||
        attributes_length > MAX_ATTRIBUTES * ATTRIBUTE_BYTES)
        return PyErr_Format(PyExc_ValueError, "bind takes a function's address, at most %d parameters, and at most %d"
                            " whole launch attributes", MAX_PARAMETERS, MAX_ATTRIBUTES);

    size_t parameters_bytes = (size_t)formats_length * sizeof(parameter);
    binding *bound = PyMem_Calloc(1, sizeof(binding) + parameters_bytes + (size_t)attributes_length);
    if (bound == NULL)
        return PyErr_NoMemory();
    bound->launch = (void *)launch;
    bound->function = (void *)function;
    bound->threads = (unsigned int)threads;
    bound->shared = (unsigned int)shared;
    bound->attribute_count = (unsigned int)(attributes_length / ATTRIBUTE_BYTES);
    bound->attributes = (unsigned char *)bound->parameters + parameters_bytes;
    memcpy(bound->attributes, attributes, (size_t)attributes_length);
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

static PyMethodDef methods[] = {
    {"bind", (PyCFunction)(void (*)(void))bind, METH_FASTCALL,
     "bind(launch, function, threads, shared, formats, attributes) -> enqueue\n\n"
     "launch: the address of cuLaunchKernel or hipModuleLaunchKernel; of cuLaunchKernelEx where there are attributes\n"
     "(CUlaunchAttribute after CUlaunchAttribute, as bytes). function: the driver's handle. formats: a character for\n"
     "each kernel parameter, struct's QqIiHhBbfd, M (a tensor map's address) or N (a null pointer without a value)."},
    {NULL, NULL, 0, NULL}};

static int
execute(PyObject *module)
{
    return PyModule_AddIntConstant(module, "VERSION", VERSION);
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
