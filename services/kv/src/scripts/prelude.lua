-- What scripts see. It runs once in a new state, before any script, and is given what is written in Rust. It gives back what runs scripts.
local native = ...
local error, getmetatable, setmetatable, rawget, rawset = error, getmetatable, setmetatable, rawget, rawset
local next, pcall, xpcall, type, tostring, select = next, pcall, xpcall, type, tostring, select
local concat, insert, sort, collectgarbage = table.concat, table.insert, table.sort, collectgarbage
local create, wrap, resume = coroutine.create, coroutine.wrap, coroutine.resume
local caught, spend = native.caught, native.spend

-- Tables that scripts may not change are empty ones, in front of these. So nothing of one script is seen by the next.
local behind = {}

local function refuse()
    error("Attempt to modify a readonly table", 2)
end

local function lock(real)
    local front, shown = {}, {}
    behind[front], behind[shown] = real, { __index = front }
    setmetatable(shown, { __index = behind[shown], __newindex = refuse, __metatable = false })
    return setmetatable(front, { __index = real, __newindex = refuse, __metatable = shown })
end

local function is_there(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

-- An error as a script sees it: its text, if it has one.
local function plain(reason)
    if type(reason) == "userdata" then
        return caught(reason)
    end
    if type(reason) == "table" and type(rawget(reason, "err")) == "string" then
        return rawget(reason, "err")
    end
    return reason
end

local function settled(is_well, ...)
    if is_well then
        return true, ...
    end
    return false, plain((...))
end

local base = {
    _VERSION = _VERSION,
    assert = assert,
    error = error,
    ipairs = ipairs,
    rawequal = rawequal,
    select = select,
    tonumber = tonumber,
    tostring = tostring,
    type = type,
    unpack = native.unpack,
    getmetatable = getmetatable,
}

function base.setmetatable(target, metatable)
    if behind[target] then
        error("Attempt to modify a readonly table", 0)
    end
    return setmetatable(target, metatable)
end

function base.rawset(target, key, value)
    if behind[target] then
        error("Attempt to modify a readonly table", 0)
    end
    return rawset(target, key, value)
end

function base.rawget(target, key)
    return rawget(behind[target] or target, key)
end

function base.next(target, key)
    return next(behind[target] or target, key)
end

function base.pairs(target)
    if type(target) ~= "table" then
        error("bad argument #1 to 'pairs' (table expected, got " .. type(target) .. ")", 2)
    end
    return behind[target] and base.next or next, target, nil
end

function base.pcall(...)
    return settled(pcall(...))
end

function base.xpcall(run, handler)
    return xpcall(run, function(reason)
        return handler(plain(reason))
    end)
end

function base.collectgarbage(what)
    return what == "count" and collectgarbage("count") or 0
end

function base.gcinfo()
    return collectgarbage("count")
end

local environment

function base.loadstring(text, name)
    return native.compile(text, name or text, environment)
end

function base.load(read, name)
    if type(read) ~= "function" then
        error("bad argument #1 to 'load' (function expected, got " .. type(read) .. ")", 2)
    end
    local parts = {}
    while true do
        local part = read()
        if part == nil or part == "" then
            return native.compile(concat(parts), name or "=(load)", environment)
        end
        parts[#parts + 1] = part
    end
end

base.coroutine = {
    running = coroutine.running,
    status = coroutine.status,
    yield = coroutine.yield,
    create = function(run)
        spend()
        return create(run)
    end,
    wrap = function(run)
        spend()
        return wrap(run)
    end,
    resume = function(...)
        return settled(resume(...))
    end,
}

base.table = {}
for name, value in next, table do
    base.table[name] = value
end

function base.table.insert(target, ...)
    if behind[target] then
        error("Attempt to modify a readonly table", 2)
    end
    local place = ...
    if select("#", ...) > 1 and type(place) == "number" and not (place >= 1) then
        error("bad argument #2 to 'insert' (position out of bounds)", 2)
    end
    return insert(target, ...)
end

-- Where comparing is written in C it may take long, so each comparison is made here, and its instructions are counted.
function base.table.sort(target, less)
    if type(target) == "table" and (less == nil or type(less) == "function") and not native.sorts_at_once(target, less) then
        local compare = less
        less = compare and function(one, other)
            return compare(one, other)
        end or function(one, other)
            return one < other
        end
    end
    return sort(target, less)
end

base.math = {}
for name, value in next, math do
    base.math[name] = value
end
base.math.random, base.math.randomseed = native.random, native.randomseed

base.string = {}
for _, name in next, { "byte", "char", "format", "len", "lower", "reverse", "sub", "upper" } do
    base.string[name] = string[name]
end
for _, name in next, { "find", "match", "rep" } do
    base.string[name] = native[name]
end

function base.string.gmatch(text, pattern)
    local place = 0
    local function keep(following, ...)
        place = following
        return ...
    end
    return function()
        if place then
            return keep(native.step(text, pattern, place))
        end
    end
end
base.string.gfind = base.string.gmatch

function base.string.gsub(text, pattern, change, most)
    local kind = type(change)
    if kind == "string" or kind == "number" then
        return native.replace(text, pattern, change, most)
    end
    if kind ~= "table" and kind ~= "function" then
        error("bad argument #3 to 'gsub' (string/function/table expected)", 2)
    end
    local parts, count, place = {}, 0, 0
    local function changed(before, matched, after, following, first, ...)
        if not before then
            return false
        end
        local value
        if kind == "table" then
            value = change[first]
        else
            value = change(first, ...)
        end
        if not value then
            value = matched
        elseif type(value) ~= "string" and type(value) ~= "number" then
            error("invalid replacement value (a " .. type(value) .. ")", 3)
        end
        count, place = count + 1, following
        parts[#parts + 1] = before
        parts[#parts + 1] = value
        parts[#parts + 1] = after
        return place
    end
    while not most or count < most do
        if not changed(native.seek(text, pattern, place)) then
            break
        end
    end
    parts[#parts + 1] = native.rest(text, place)
    return concat(parts), count
end

base.bit, base.cjson, base.cmsgpack, base.struct = native.bit, native.cjson, native.cmsgpack, native.struct

local redis = native.redis

local function field(name, value)
    return { [name] = value }
end

function redis.error_reply(...)
    local text = ...
    if select("#", ...) ~= 1 or type(text) ~= "string" then
        return field("err", "ERR wrong number or type of arguments")
    end
    return field("err", native.error_text(text))
end

function redis.status_reply(...)
    local text = ...
    if select("#", ...) ~= 1 or type(text) ~= "string" then
        return field("err", "ERR wrong number or type of arguments")
    end
    return field("ok", text)
end

local shared = {}
for name, value in next, base do
    shared[name] = type(value) == "table" and lock(value) or value
end
-- Methods of strings are the same for all scripts, and so nobody may reach their table.
local strings = getmetatable("")
strings.__index = base.string
strings.__metatable = lock({ __index = shared.string })

local function globals(own)
    for name, value in next, shared do
        own[name] = value
    end
    setmetatable(own, { __index = is_there })
    own._G = lock(own)
    return own, own._G
end

local api = lock(redis)
-- Functions of the library that is being loaded, by their names.
local loading
local while_loading = {}
for _, name in next, { "log", "REDIS_VERSION", "REDIS_VERSION_NUM", "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING", "sha1hex", "error_reply", "status_reply" } do
    while_loading[name] = redis[name]
end
function while_loading.register_function(...)
    local name, callback = native.register(...)
    loading[name] = callback
end
setmetatable(while_loading, { __index = is_there })
while_loading = lock(while_loading)

local of_scripts, scripts = globals({ redis = api })
local of_functions, functions = globals({ redis = api })

-- Compiled scripts by the names of their texts, and functions of libraries by theirs.
local compiled, registered = {}, {}
local handler = native.handler

local function run(body, keys, arguments)
    return xpcall(function()
        return body(keys, arguments)
    end, handler)
end

return {
    compile = function(name, text)
        local body, reason = native.compile(text, "@user_script", scripts)
        compiled[name] = body
        return reason
    end,
    forget = function(name)
        compiled[name] = nil
    end,
    eval = function(name, keys, arguments)
        environment = scripts
        of_scripts.KEYS, of_scripts.ARGV = keys, arguments
        return run(compiled[name])
    end,
    -- Runs a library's text. What it registers is kept if it is wanted.
    load = function(text)
        local body, reason = native.compile(text, "@user_function", functions)
        if not body then
            return nil, reason
        end
        environment, of_functions.redis, loading = functions, while_loading, {}
        -- As Redis has it: these are there when a function is called.
        of_functions.math, of_functions.getmetatable = nil, nil
        local is_well = run(body)
        of_functions.redis, of_functions.math, of_functions.getmetatable = api, shared.math, shared.getmetatable
        return is_well
    end,
    keep = function(library)
        registered[library] = loading
    end,
    drop = function(library)
        registered[library] = nil
    end,
    call = function(library, name, keys, arguments)
        environment = functions
        return run(registered[library][name], keys, arguments)
    end,
}
